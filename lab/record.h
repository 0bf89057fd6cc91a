// What running a lesson gave, as data/LESSON.json: commands, outputs and the numbers of figures.
// Pages are made of these files alone.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/lesson.h"
#include "lab/run.h"

namespace linea::lab {

using Matrix = std::vector<std::vector<double>>;

// What every record begins with: how it was made.
nlohmann::ordered_json record_head(const std::string& command, const std::string& version,
                                   int64_t seed, double seconds);
// Writes `folder`/data/LESSON.json. Errors: ErrorKind::write.
void write_record(const std::filesystem::path& folder, const Lesson& lesson,
                  const RunOptions& options, const Printed& printed,
                  const nlohmann::ordered_json& figures);

class Record {
 public:
  // Error: ErrorKind::input, a file that is none of these.
  explicit Record(const std::filesystem::path& file);
  ~Record();
  Record(Record&&) noexcept;

  // The value at a JSON pointer such as /figures/w3/size. Error: ErrorKind::input, there is none.
  double value(const std::string& pointer) const;
  std::string text(const std::string& pointer) const;
  bool flag(const std::string& pointer) const;
  std::vector<double> numbers(const std::string& pointer) const;
  Matrix matrix(const std::string& pointer) const;
  bool is_number(const std::string& pointer) const;
  bool has(const std::string& pointer) const;
  size_t size(const std::string& pointer) const;
  std::vector<std::string> keys(const std::string& pointer) const;  // of an object

  // The pointer to a word of a run's output, named as in lab/expect.h; empty: the output has no
  // such word.
  std::string pointer_to(size_t run, const std::string& name) const;
  // The numbers after a name at the beginning of a line, and those on the lines below it.
  Matrix printed(size_t run, const std::string& name) const;
  // The pointer to one of these.
  std::string printed_place(size_t run, const std::string& name, size_t row, size_t column) const;

  // The number as a page shows it: with `decimals`, or as it is printed in an output (-1).
  std::string measured(const std::string& pointer, int decimals = -1) const;
  const std::string& file_name() const { return name_; }  // LESSON.json

 private:
  const nlohmann::json& at(const std::string& pointer) const;
  size_t line_of(size_t run, const std::string& name) const;

  std::string name_;
  std::unique_ptr<nlohmann::json> document_;
};

}  // namespace linea::lab
