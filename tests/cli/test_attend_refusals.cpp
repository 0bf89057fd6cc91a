// What linea attend refuses: with one line that names what is wrong, and no file.
#include "tests/cli/attend_program.h"

namespace linea::attend_tests {
namespace {

TEST_F(Attend, RefusesInvalidCombinations) {
  const Arrays in = inputs_for({"linear", "elu", "delta"});
  const auto usage = [&](const std::string& flags, std::initializer_list<std::string> fragments) {
    bad(2, flags, in, fragments);
  };
  usage(" --attention linaer", {"'linaer'", "softmax"});
  usage(" --feature cosine", {"'cosine'", "elu"});
  usage(" --attention softmax --feature elu", {"softmax", "--feature"});
  usage(" --attention vq --feature elu", {"vq", "--feature"});
  usage(" --attention performer --feature elu", {"'elu'", "positive"});
  usage(" --feature positive", {"'positive'", "elu"});
  usage(" --rule slow --causal", {"'slow'", "gated"});
  usage(" --rule delta --feature square --causal", {"delta", "square"});
  usage(" --rule gated --feature square --causal", {"gated", "square"});
  for (const char* other : {"softmax", "performer", "vq", "soft-vq"})
    usage(fmt::format(" --attention {} --rule delta --causal", other), {"--rule", "linear", other});
  usage(" --attention softmax --codes 3", {"--codes", "soft-vq, vq", "softmax"});
  usage(" --attention softmax --nu 2", {"--nu", "linear", "softmax"});
  usage(" --nu 2", {"--nu", "--feature dpfp"});
  usage(" --rule delta", {"--rule delta", "--causal"});
  usage(" --rule gated", {"--rule gated", "--causal"});
  usage(" --form recurrent", {"--form recurrent", "--causal"});
  usage(" --form recurrent --causal", {"dy", "--form recurrent"});
  usage(" --form sideways", {"'sideways'", "chunked"});
  usage(" --device cuda", {"'cuda'", "CUDA"});
  usage(" --device quantum", {"'quantum'"});
  usage(" --attention performer --projection round", {"'round'", "orthogonal"});
  usage(" --attention performer --features 0", {"--features is 0"});
  usage(" --attention soft-vq --sigma 0", {"--sigma is 0"});
  usage(" --attention vq --codes 0", {"--codes is 0"});
  usage(" --feature dpfp --nu 0", {"--nu is 0"});
  usage(" --feature dpfp --nu 8", {"nu is 8", "1..7"});
  for (const char* flag : {"seed", "threads", "segment", "chunk"})
    usage(fmt::format(" --{} -1", flag), {fmt::format("--{} is -1", flag)});
  usage(" --threads many", {"--threads"});
  usage(" --chunks 8", {"'--chunks'", "'--chunk'"});
  refused(2, "attend --out none.safetensors", {"--in"});
  refused(2, "attend --in bad.safetensors --out bad.safetensors", {"--in", "--out"});
}

TEST_F(Attend, RefusesFlagsThatContradictTheFile) {
  bad(2, " --attention performer --features 7", inputs_for({"performer", ""}),
      {"--features is 7", "omega", "[2,6,4]"});
  bad(2, " --attention vq --codes 7", inputs_for({"vq", ""}),
      {"--codes is 7", "codebook", "[2,6,4]"});
  bad(2, " --attention soft-vq --sigma 2", inputs_for({"soft-vq", ""}), {"--sigma is 2", "0.8125"});
}

TEST_F(Attend, NamesMissingAndMisshapedTensors) {
  const auto input = [&](const Mechanism& m, const std::string& name, const Shape& shape,
                         std::initializer_list<std::string> fragments) {
    Arrays in = inputs_for(m);
    if (shape.rank() == 0)
      in.erase(name);
    else
      in[name] = normal(shape, 9);
    bad(3, m.flags() + (m.causal_only() ? " --causal" : ""), in, fragments);
  };
  const Mechanism elu{"linear", "elu"}, gated{"linear", "elu", "gated"},
      delta{"linear", "elu", "delta"}, performer{"performer", ""}, vq{"vq", ""},
      soft{"soft-vq", ""};
  input(elu, "q", {}, {"bad.safetensors", "no tensor q", "[B,H,N,D]"});
  input(elu, "k", {}, {"no tensor k", "[2,2,19,4]"});
  input(elu, "v", {}, {"no tensor v", "[2,2,19,M]"});
  input(gated, "gate", {}, {"no tensor gate", "[2,2,19]"});
  input(delta, "beta", {}, {"no tensor beta", "[2,2,19]"});
  input({"gdn", ""}, "log_decay", {}, {"no tensor log_decay", "[2,2,19]"});
  input({"kda", ""}, "log_decay", {2, 2, 19}, {"log_decay is [2,2,19]", "[2,2,19,4]"});
  input({"ssd", ""}, "beta", {2, 2, 19, 1}, {"beta is [2,2,19,1]", "[2,2,19]"});
  input({"clustered", ""}, "planes", {2, 32, 4}, {"planes is [2,32,4]", "it must be [2,32,5]"});
  input({"lsh", ""}, "rotations", {2, 3, 4, 1}, {"rotations is [2,3,4,1]", "it must be [2,4,4,1]"});
  input({"routing", ""}, "centroids", {2, 3, 5}, {"centroids is [2,3,5]", "[2,C,4]"});
  input({"luna", ""}, "slots", {2, 3, 5}, {"slots is [2,3,5]", "[2,C,4]"});
  input({"linformer", ""}, "compress_k", {2, 18, 5},
        {"compress_k is [2,18,5]", "it must be [2,19,5]"});
  input({"synthesizer", ""}, "tables_q", {2, 18, 8}, {"tables_q is [2,18,8]", "be [2,19,8]"});
  input({"prior", ""}, "sigma", {3}, {"sigma is [3]", "it must be [2]"});
  input({"prior", ""}, "span", {2}, {"has no span", "leave it out"});
  input({"mca", ""}, "compress_v", {2, 4, 3, 3}, {"compress_v is [2,4,3,3]"});
  input(vq, "codebook", {}, {"no tensor codebook", "[2,F,4]"});
  input(soft, "codebook", {}, {"no tensor codebook", "[2,F,4]"});
  input(elu, "q", {2, 19, 4}, {"q is [2,19,4]", "[B,H,N,D]"});
  input(elu, "k", {2, 2, 18, 4}, {"k is [2,2,18,4]", "[2,2,19,4]"});
  input(elu, "v", {2, 2, 19}, {"v is [2,2,19]", "[2,2,19,M]"});
  input(elu, "dy", {2, 2, 19, 4}, {"dy is [2,2,19,4]", "[2,2,19,3]"});
  input(gated, "gate", {2, 2, 19, 1}, {"gate is [2,2,19,1]", "[2,2,19]"});
  input(delta, "beta", {2, 19, 2}, {"beta is [2,19,2]", "[2,2,19]"});
  input(performer, "omega", {6, 4}, {"omega is [6,4]", "[2,R,4]"});
  input(performer, "omega", {2, 6, 5}, {"omega is [2,6,5]", "[2,R,4]"});
  input(vq, "codebook", {1, 6, 4}, {"codebook is [1,6,4]", "[2,F,4]"});
  input(soft, "sigma", {2}, {"sigma is [2]", "[1]"});
  for (const Shape& shape :
       {Shape{0, 2, 19, 4}, Shape{2, 0, 19, 4}, Shape{2, 2, 0, 4}, Shape{2, 2, 19, 0}})
    input(elu, "q", shape, {"q is " + shape.str(), "at least 1"});
  input(elu, "v", {2, 2, 19, 0}, {"v is [2,2,19,0]", "at least 1"});
  input(performer, "omega", {2, 0, 4}, {"omega is [2,0,4]", "at least 1"});
  input(vq, "codebook", {2, 0, 4}, {"codebook is [2,0,4]", "at least 1"});
}

TEST_F(Attend, NamesTensorsOfTheWrongType) {
  const Arrays in = inputs_for({"linear", "elu"});
  const auto mixed = [&](const std::string& other, DType dtype) {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, array] : in) {
      Tensor tensor = tensor_of(array, DType::f64);
      if (name == other)
        tensor = dtype == DType::f32 ? tensor_of(array, dtype) : Tensor::zeros(array.shape, dtype);
      tensors.push_back({name, tensor});
    }
    write_safetensors(path("bad.safetensors"), tensors);
  };
  mixed("v", DType::f32);
  bad_file(3, "", {"bad.safetensors", "v is F32", "q is F64"});
  mixed("dy", DType::f32);
  bad_file(3, "", {"dy is F32", "q is F64"});
  mixed("q", DType::i32);
  bad_file(3, "", {"q is I32", "F32", "F64"});
}

TEST_F(Attend, NamesInvalidNumbers) {
  const auto number = [&](const Mechanism& m, const std::string& name, double value,
                          std::initializer_list<std::string> fragments) {
    Arrays in = inputs_for(m);
    in.at(name).values.back() = value;
    bad(3, m.flags() + (m.causal_only() ? " --causal" : ""), in, fragments);
  };
  const Mechanism gated{"linear", "elu", "gated"}, delta{"linear", "elu", "delta"},
      soft{"soft-vq", ""};
  const double infinite = HUGE_VAL;
  for (const char* name : {"q", "k", "v", "dy", "codebook", "sigma"}) {
    number(soft, name, std::nan(""),
           {"bad.safetensors", fmt::format(" {} is nan", name), "finite"});
    number(soft, name, -infinite, {fmt::format(" {} is -inf", name)});
  }
  number(gated, "gate", std::nan(""), {"gate is nan at [1,1,18]"});
  number(delta, "beta", infinite, {"beta is inf at [1,1,18]"});
  number({"performer", ""}, "omega", std::nan(""), {"omega is nan at [1,5,3]"});
  for (const double value : {-1e-30, 1.0000001, -0.5, 2.0}) {
    number(gated, "gate", value, {fmt::format("gate is {:.9g} at [1,1,18]", value), "from 0 to 1"});
    number(delta, "beta", value, {fmt::format("beta is {:.9g} at [1,1,18]", value), "from 0 to 1"});
  }
  number({"gdn", ""}, "log_decay", 1e-30, {"log_decay is 1e-30 at [1,1,18]", "at most 0"});
  number({"gdn", ""}, "beta", 1.5, {"beta is 1.5 at [1,1,18]", "from 0 to 1"});
  number({"ssd", ""}, "beta", -1, {"beta is -1 at [1,1,18]", "at least 0"});
  number(soft, "sigma", 0, {"sigma is 0", "above 0"});
  number(soft, "sigma", -1, {"sigma is -1", "above 0"});
}

TEST_F(Attend, RefusesANonfiniteResult) {
  Arrays in = inputs_for({"linear", "square"});
  for (double& value : in.at("q").values) value *= 1e200;
  bad(4, " --feature square", in, {"y of bad.safetensors", "nan"});
}

TEST_F(Attend, NamesUnreadableAndUnwritableFiles) {
  bad_file(3, "", {"bad.safetensors"});
  put("bad.safetensors", "not tensors");
  bad_file(3, "", {"bad.safetensors"});
  const Arrays in = inputs_for({"linear", "elu"});
  save("in.safetensors", in);
  refused(6, "attend --in in.safetensors --out nowhere/out.safetensors", {"nowhere"});
  const Outcome cut =
      linea(words_of("attend --in in.safetensors --out out.safetensors"), 1000);  // bytes a file
  check_refusal(cut, 6, "a file that cannot grow", {"out.safetensors"});
  EXPECT_EQ(names_in(""), (Words{".stderr", ".stdout", "bad.safetensors", "in.safetensors"}));
}

}  // namespace
}  // namespace linea::attend_tests
