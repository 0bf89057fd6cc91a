// linea attend as a child process: arrays of known numbers go in, arrays come out, or a refusal.
#pragma once

#include "base/random.h"
#include "data/safetensors.h"
#include "tests/cli/attend_formula.h"
#include "tests/cli/program.h"

namespace linea::attend_tests {

// Values that do not depend on the dtype.
inline Array normal(const Shape& shape, uint32_t stream_id, double stddev = 1) {
  Array result{shape, {}};
  for (int64_t i = 0; i < shape.numel(); ++i)
    result.values.push_back(static_cast<float>(
        stddev * random_normal({7, Purpose::test, stream_id, 0}, static_cast<uint64_t>(i))));
  return result;
}

// What the mechanism needs, with dy.
inline Arrays inputs_for(const Mechanism& m, const Sizes& s = {}) {
  const Shape keys{s.batch, s.heads, s.length, s.key_size}, values = keys.with(-1, s.value_size);
  const Shape rows{s.heads, s.rows, s.key_size};
  Arrays in = {{"q", normal(keys, 1, 0.7)},
               {"k", normal(keys, 2, 0.7)},
               {"v", normal(values, 3)},
               {"dy", normal(values, 4)}};
  if (m.attention == "performer") in["omega"] = normal(rows, 5);
  if (m.both_codes()) in["codebook"] = normal(rows, 6, 0.8);
  if (m.attention == "soft-vq") in["sigma"] = {{1}, {0.8125}};
  for (const std::string& name : m.log_gates()) {
    const Shape positions{s.batch, s.heads, s.length};
    const bool wide = name == "log_decay" && m.channels();
    Array gate = normal(wide ? keys : positions, name == "beta" ? 8 : 9);
    for (double& g : gate.values)
      g = static_cast<float>(name == "beta" ? 1 / (1 + std::exp(-g)) : -0.2 * std::exp(2 * g));
    in[name] = gate;
  }
  if (!m.gate().empty()) {
    const Shape positions{s.batch, s.heads, s.length}, both{s.batch, s.heads, s.length, 2};
    Array gate = normal(m.gates() == 2 ? both : positions, 7);
    for (double& g : gate.values) g = static_cast<float>(1 / (1 + std::exp(-1 - g)));
    in[m.gate()] = gate;
  }
  return in;
}

inline Arrays without(Arrays arrays, const std::string& name) {
  arrays.erase(name);
  return arrays;
}

inline Tensor tensor_of(const Array& array, DType dtype) {
  if (dtype == DType::f64) return Tensor::from(array.values, array.shape);
  return Tensor::from(std::vector<float>(array.values.begin(), array.values.end()), array.shape);
}

// Its members are public for checks that several tests share.
class Attend : public ProgramTest {
 public:
  // Not by the library's writer, which waits for the disk: there are hundreds of these.
  void save(const std::string& name, const Arrays& arrays, DType dtype = DType::f64) const {
    std::vector<SafetensorsEntry> entries;
    std::string bytes;
    for (const auto& [key, array] : arrays) {
      const Tensor tensor = tensor_of(array, dtype);
      const size_t begin = bytes.size();
      bytes.resize(begin + tensor.bytes());
      if (tensor.bytes() > 0) tensor.read(&bytes[begin]);
      entries.push_back(
          {key, dtype == DType::f64 ? "F64" : "F32", array.shape.sizes(), begin, bytes.size()});
    }
    const std::string header = format_safetensors_header(entries, {});
    std::ofstream file(path(name), std::ios::binary);
    for (int byte = 0; byte < 8; ++byte) file.put(static_cast<char>(header.size() >> (8 * byte)));
    file << header << bytes;
  }

  // What --out holds; its tensors are all of this dtype.
  Arrays load(const std::string& name, DType dtype = DType::f64) const {
    Arrays result;
    const SafetensorsFile file = SafetensorsFile::open(path(name));
    for (const SafetensorsEntry& entry : file.entries()) {
      const Tensor tensor = file.read(entry.name);
      EXPECT_EQ(tensor.dtype(), dtype) << entry.name;
      result[entry.name] = {tensor.shape(), tensor.to_doubles()};
    }
    return result;
  }

  Arrays attend(const std::string& flags, const Arrays& in, DType dtype = DType::f64) const {
    save("in.safetensors", in, dtype);
    const Outcome outcome = done("attend --in in.safetensors --out out.safetensors" + flags);
    EXPECT_EQ(outcome.err, "");
    return load("out.safetensors", dtype);
  }

  // Refused with one line, and no file.
  void bad(int code, const std::string& flags, const Arrays& in,
           std::initializer_list<std::string> fragments) const {
    save("bad.safetensors", in);
    bad_file(code, flags, fragments);
  }
  void bad_file(int code, const std::string& flags,
                std::initializer_list<std::string> fragments) const {
    refused(code, "attend --in bad.safetensors --out none.safetensors" + flags, fragments);
    const Words names = names_in("");
    for (const std::string& name : names)
      EXPECT_TRUE(name.rfind("none", 0) != 0 && name.rfind(".tmp", 0) != 0) << name;
  }
};

}  // namespace linea::attend_tests
