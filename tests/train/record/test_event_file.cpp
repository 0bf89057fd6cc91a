// Event files for TensorBoard: every record whole, what metrics.jsonl has, and a resumed run.
#include "tests/cli/program.h"
#include "tests/data/faulty_disk.h"
#include "tests/data/file_size_limit.h"
#include "tests/train/event_records.h"
#include "train/record/event_file.h"

namespace linea {
namespace {

class EventFileTest : public ProgramTest {
 protected:
  std::vector<std::string> event_files(const std::string& run) const {
    std::vector<std::string> files;
    for (const std::string& name : names_in(run + "/tensorboard"))
      files.push_back(run + "/tensorboard/" + name);
    return files;
  }
  std::vector<Fields> events_in(const std::string& file) const {
    std::vector<Fields> events;
    for (const std::string& record : records_of(bytes(file))) events.emplace_back(record);
    return events;
  }
};

const std::function<void(const std::string&)> kNoWarning = [](const std::string& line) {
  ADD_FAILURE() << line;
};

float value_of(const Fields& value) { return read_as<float>(value.at(2), 0); }

TEST_F(EventFileTest, StartsWithTheVersionRecord) {
  const EventFile fresh(path("fresh"), -1, kNoWarning), resumed(path("resumed"), 40, kNoWarning);
  const std::string name = fresh.path().filename().string();
  EXPECT_EQ(name.rfind("events.out.tfevents.", 0), 0u) << name;
  const std::vector<std::string> records = records_of(read_file(fresh.path()));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(Fields(records[0]).at(3), "brain.Event:2");
  const double now = static_cast<double>(std::time(nullptr));
  EXPECT_NEAR(read_as<double>(Fields(records[0]).at(1), 0), now, 100);

  const std::vector<std::string> again = records_of(read_file(resumed.path()));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(Fields(again[0]).at(3), "brain.Event:2");
  EXPECT_EQ(Fields(again[1]).integer(2), 41u) << "the first step that is to be forgotten";
  EXPECT_EQ(Fields(again[1]).message(7).integer(1), 1u) << "START";
}

TEST_F(EventFileTest, NamesSortByCreation) {
  std::vector<std::string> made;
  for (int i = 0; i < 12; ++i)
    made.push_back(EventFile(path("many"), -1, kNoWarning).path().filename().string());
  EXPECT_EQ(names_in("many"), made);
}

TEST_F(EventFileTest, HoldsScalarsImagesAndTexts) {
  EventFile file(path("events"), -1, kNoWarning);
  file.scalars(300, {{"loss", 1.25}, {"val_loss", std::nan("")}, {"lr", 1e-3}});
  const std::string png =
      std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\x01\x02\x08", 25) + '\0' + "more";
  file.image(301, "samples", png);
  file.text(302, "samples", "a b\nc\xE9\n");
  const std::vector<std::string> records = records_of(read_file(file.path()));
  ASSERT_EQ(records.size(), 4u);

  const Fields scalars(records[1]);
  EXPECT_EQ(scalars.integer(2), 300u);
  const std::vector<Fields> values = scalars.message(5).messages(1);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].at(1), "loss");
  EXPECT_EQ(value_of(values[0]), 1.25f);
  EXPECT_TRUE(std::isnan(value_of(values[1])));
  EXPECT_EQ(values[2].at(1), "lr");
  EXPECT_EQ(value_of(values[2]), 1e-3f);

  const Fields image = Fields(records[2]).message(5).message(1);
  EXPECT_EQ(image.at(1), "samples");
  EXPECT_EQ(image.message(4).integer(1), 0x102u) << "height";
  EXPECT_EQ(image.message(4).integer(2), 5u) << "width";
  EXPECT_EQ(image.message(4).integer(3), 1u) << "gray";
  EXPECT_EQ(image.message(4).at(4), png);

  const Fields text = Fields(records[3]).message(5).message(1);
  EXPECT_EQ(text.message(9).message(1).at(1), "text") << "the plugin";
  EXPECT_EQ(text.message(8).integer(1), 7u) << "strings";
  EXPECT_EQ(text.message(8).at(8), "    a b\n    c\\xE9\n    ");
}

// What did not fit is said once; the file ends after a whole record.
TEST_F(EventFileTest, AWriteErrorWarnsOnceAndLeavesWholeRecords) {
  std::vector<std::string> warnings;
  EventFile file(path("events"), -1, [&](const std::string& line) { warnings.push_back(line); });
  file.scalars(1, {{"loss", 1}});
  const std::string before = read_file(file.path());
  {
    const FileSizeLimit limit(before.size() + 30);  // within the next record
    for (int step = 2; step < 5; ++step) file.scalars(step, {{"loss", 1}, {"bits", 2}});
  }
  file.scalars(5, {{"loss", 1}});
  EXPECT_EQ(read_file(file.path()), before);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("File too large"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find(file.path().string()), std::string::npos) << warnings[0];
}

// Whichever call of the disk fails: an error before there is a file, later a warning and whole
// records.
TEST_F(EventFileTest, SurvivesEveryFailingCall) {
  Words failed;
  for (int at = 0; at < 100; ++at) {
    const std::string folder = fmt::format("events-{}", at);
    Words warnings;
    FailingCall disk(at, ENOSPC);
    try {
      EventFile file(path(folder + "/tensorboard"), 3,
                     [&](const std::string& line) { warnings.push_back(line); });
      for (int step = 4; step < 6; ++step) file.scalars(step, {{"loss", 1}});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::write);
      EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
      warnings.push_back(error.what());
    }
    if (!disk.failed()) break;
    failed.push_back(words_of(disk.what())[0]);
    EXPECT_EQ(warnings.size(), failed.back() == "close" ? 0u : 1u) << disk.what();
    if (failed.back() == "write") {
      EXPECT_LT(records_of(bytes(event_files(folder)[0])).size(), 4u);
    }
  }
  EXPECT_EQ(std::count(failed.begin(), failed.end(), "create"), 1);
  EXPECT_EQ(std::count(failed.begin(), failed.end(), "write"), 4);
  EXPECT_EQ(failed.back(), "close");
}

TEST_F(EventFileTest, AFolderThatCannotBeCreatedIsAnError) {
  put("file", "x");
  expect_error(ErrorKind::write, {path("file")},
               [&] { EventFile(path("file/events"), -1, kNoWarning); });
}

// Every number of metrics.jsonl, in its order, and every sample.
TEST_F(EventFileTest, ARunRecordsItsMetrics) {
  done(kDigits + " --steps 25 --eval-every 10 --sample-every 10 --tensorboard --out run");
  const std::vector<std::string> files = event_files("run");
  ASSERT_EQ(files.size(), 1u);
  std::vector<nlohmann::json> lines = metrics("run");
  size_t line = 0, images = 0;
  for (const Fields& event : events_in(files[0])) {
    if (event.bytes.count(5) == 0) continue;
    const std::vector<Fields> values = event.message(5).messages(1);
    if (values[0].bytes.count(4) > 0) {
      const std::string png = fmt::format("run/samples/step-{:08}.png", event.integer(2));
      EXPECT_TRUE(values[0].message(4).at(4) == bytes(png)) << png;
      ++images;
      continue;
    }
    ASSERT_LT(line, lines.size());
    EXPECT_EQ(event.integer(2), lines[line]["step"].get<uint64_t>());
    EXPECT_EQ(values.size() + 1, lines[line].size()) << "step is no scalar";
    for (const Fields& value : values) {
      ASSERT_TRUE(lines[line].contains(value.at(1))) << value.at(1);
      EXPECT_EQ(value_of(value), lines[line][value.at(1)].get<float>()) << value.at(1);
    }
    ++line;
  }
  EXPECT_EQ(line, lines.size());
  EXPECT_EQ(images, 3u);
}

TEST_F(EventFileTest, AResumedRunStartsANewFile) {
  put_text("text.txt", 2000);
  done(kText + " --steps 20 --save-every 10 --tensorboard --out run");
  remove("run/checkpoints/step-00000020");
  done("train --resume run");
  const std::vector<std::string> files = event_files("run");
  ASSERT_EQ(files.size(), 2u);
  const std::vector<Fields> events = events_in(files[1]);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[1].integer(2), 11u);
  EXPECT_EQ(events[1].message(7).integer(1), 1u);
  for (size_t i = 2; i < events.size(); ++i) EXPECT_GE(events[i].integer(2), 11u);
  const Fields sample = events.back().message(5).message(1);
  EXPECT_EQ(sample.message(9).message(1).at(1), "text");
}

TEST_F(EventFileTest, IsOffByDefault) {
  done(kCopy + " --steps 2 --out run");
  EXPECT_FALSE(exists("run/tensorboard"));
}

}  // namespace
}  // namespace linea
