#!/usr/bin/env python3
"""Every starter fails, every solution passes, and every known mistake, an edit of a solution, gets its own hint.

    test_exercises.py [NUMBER...]      all exercises unless some are named

The numbers are those of ./exercises/check; a hint is words of what it prints.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CHECK = HERE.parents[1] / "exercises" / "check"
SOLUTIONS = {path.stem: path.read_text() for path in sorted((HERE / "solutions").glob("*.cpp"))}
UNSHIFTED = ("log_k[j][f] - largest)", "log_k[j][f] - 0 * largest)")
COLUMN_SUM = """double column(Rows q, Rows k, int j, bool causal) {
  double sum = 0;
  for (int i = causal ? j : 0; i < q.size(); ++i) {
    double score = 0;
    for (int d = 0; d < q.width(); ++d) score += q[i][d] * k[j][d];
    sum += std::exp(score / std::sqrt(q.width()));
  }
  return sum;
}

void attention("""
LEFT_ORDER = """
  for (int i = 0; i < q.size(); ++i) {
    T sum = T(0);
    for (int m = 0; m < v.width(); ++m) y[i][m] = T(0);
    for (int j = 0; j < k.size(); ++j) {
      T a = T(0);
      for (int f = 0; f < q.width(); ++f) a += q[i][f] * k[j][f];
      sum += a;
      for (int m = 0; m < v.width(); ++m) y[i][m] += a * v[j][m];
    }
    for (int m = 0; m < v.width(); ++m) y[i][m] /= sum;
  }
}
"""
CACHE = """ {
  State(int, int) {}
  void write(Row k, Row v) {
    keys_.emplace_back(k.begin(), k.end());
    values_.emplace_back(v.begin(), v.end());
  }
  void read(Row q, MutableRow y) const {
    double sum = 0;
    for (int m = 0; m < y.size(); ++m) y[m] = 0;
    for (size_t j = 0; j < keys_.size(); ++j) {
      double a = 0;
      for (int f = 0; f < q.size(); ++f) a += q[f] * keys_[j][static_cast<size_t>(f)];
      sum += a;
      for (int m = 0; m < y.size(); ++m) y[m] += a * values_[j][static_cast<size_t>(m)];
    }
    for (int m = 0; m < y.size(); ++m) y[m] /= sum;
  }
  std::vector<std::vector<double>> keys_, values_;
};
"""
# (exercise, hint, (old, new)...); an old text that ends with ... stands for all after it.
MISTAKES = [
    ("01", "q.k: divide by sqrt(D)", ("score /= std::sqrt(D)", "score /= 1 + 0 * D")),
    ("01", "q.k / D: divide by sqrt(D)", ("score /= std::sqrt(D)", "score /= D")),
    ("01", "row 0 sees key 1", ("causal ? i + 1 : N", "(void(causal), N)")),
    ("01", "row 1 does not see key 1", ("causal ? i + 1 : N", "causal ? (i > 0 ? i : 1) : N"),
     ("+= weight[static_cast<size_t>(j)] /", "+= (causal && i == 0 ? 0 : weight[static_cast<size_t>(j)]) /")),
    ("01", "the rows do not sum to 1", ("const int keys = causal ? i + 1 : N;", "const int keys = N;"),
     ("for (int j = 0; j < keys; ++j) y", "for (int j = 0; j < (causal ? i + 1 : N); ++j) y")),
    ("01", "not finite at row", ("std::exp(w - largest)", "std::exp(w + 0 * largest)")),
    ("01", "you normalized over queries", ("void attention(", COLUMN_SUM),
     ("sum += w = std::exp(w - largest)", "sum += w = std::exp(w + 0 * largest)"),
     ("/ sum *", "/ column(q, k, j, causal) *")),
    ("01", "leave out what a row does not see",
     ("const int keys = causal ? i + 1 : N;", "const int keys = N, seen = causal ? i + 1 : N;"),
     ("weight.end());", "weight.begin() + seen);"),
     ("for (double& w : weight) sum += w = std::exp(w - largest);",
      "for (int j = 0; j < keys; ++j) {\n      double& w = weight[static_cast<size_t>(j)];\n"
      "      sum += w = std::exp(std::min(w - largest, 0.0)) * (j < seen ? 1 : 0);\n    }")),
    ("01", "it does not end within", ("  const int N", "  for (volatile int n = 0; n < 1;) {}\n  const int N")),
    ("02", "sum k_j^T v_j over j first", ("\n  const int F...", LEFT_ORDER)),
    ("02", "y is not divided", ("read / sum", "read")),
    ("02", "divided by N", ("read / sum", "read / T(q.size())")),
    ("02", "divided by the sum of all features of keys", ("sum += q[i][f] * z", "sum += z")),
    ("02", "it crashed", ("  const int F", "  *static_cast<volatile int*>(nullptr) = 1;\n  const int F")),
    ("03", "it keeps keys and values", (" {\n  State(...", CACHE)),
    ("03", "y_1 is that of an empty state",
     ("  void write(Row k, Row v) {\n",
      "  std::vector<double> k_, v_;\n  void write(Row k, Row v) {\n    add();\n    k_.assign(k.begin(), k.end());\n"
      "    v_.assign(v.begin(), v.end());\n  }\n  void add() {\n    if (k_.empty()) return;\n"
      "    const Row k(k_.data(), static_cast<int>(k_.size())), v(v_.data(), M_);\n")),
    ("03", "divided by the number of positions", ("  void write(Row k, Row v) {\n",
                                                  "  int count = 0;\n  void write(Row k, Row v) {\n    ++count;\n"),
     ("/ sum;", "/ (count + 0 * sum);")),
    ("03", "y is not divided by q_i.z", ("/ sum;", "/ (1 + 0 * sum);")),
    ("03", "the state forgets all but the last key", ("z_[static_cast<size_t>(f)] += k", "z_[static_cast<size_t>(f)] = k"),
     ("m)] += k[f] * v", "m)] = k[f] * v")),
    ("03", "does not compile", ("  void write", "  voit write")),
    ("04", "the diagonal is missing", ("j <= i; ++j", "j < i; ++j")),
    ("04", "read the state before the chunk is added", ("j <= i; ++j", "j < end; ++j")),
    ("04", "add q_i S, of the chunks before", ("z[static_cast<size_t>(f)] += k[j][f]", "z[static_cast<size_t>(f)] = 0"),
     ("m)] += k[j][f] * v[j][m]", "m)] = 0")),
    ("04", "the denominator has the keys of the chunk alone", ("        sum += q[i][f] * z[static_cast<size_t>(f)];\n", "")),
    ("04", "the last", ("y[i][m] = 0;", "y[i + 1][m] = 0;")),
    ("05", "you forgot the denominator's gradient", ("ei -= dy[i][m] * y / d", "ei -= 0 * y")),
    ("05", "this sweep runs from the end", ("for (int j = N - 1; j >= 0; --j)", "for (int j = 0; j < N; ++j)")),
    ("05", "S_i and z_i end at i", ("  for (int i = 0; i < N; ++i) {\n    double d = 0;",
                                     "  std::vector<double> all_S(S), all_z(z);\n  for (int j = 0; j < N; ++j)\n"
                                     "    for (int f = 0; f < F; ++f) {\n      all_z[static_cast<size_t>(f)] += k[j][f];\n"
                                     "      for (int m = 0; m < M; ++m) all_S[at(f, m)] += k[j][f] * v[j][m];\n    }\n"
                                     "  for (int i = 0; i < N; ++i) {\n    double d = 0;"),
     ("ei * z[", "ei * all_z["), ("n[at(i, m)] * S[", "n[at(i, m)] * all_S[")),
    ("05", "divide it by d_i first", ("r(static_cast<size_t>(F));\n  for (int j", "r(static_cast<size_t>(F)), T(R);\n  for (int j"),
     ("R[at(f, m)] += q[j][f] * n[at(j, m)];", "R[at(f, m)] += q[j][f] * n[at(j, m)];\n        T[at(f, m)] += q[j][f] * dy[j][m];"),
     ("k[j][f] * R[at(f, m)]", "k[j][f] * T[at(f, m)]")),
    ("05", "the states of all", ("  std::vector<double> R(", "  std::vector<std::vector<double>> all(static_cast<size_t>(N), S);\n"
                                                             "  std::vector<double> R(")),
    ("06", "-|x^|^2 / 2 is missing", ("u - square / 2", "u - 0 * square")),
    ("06", "|x|^2 where |x^|^2 is due", ("a * a / (root * root)", "a * a")),
    ("06", "x^ = x / D^(1/4), not x", ("std::pow(x.size(), 0.25)", "1 + 0 * std::pow(x.size(), 0.25)")),
    ("06", "divide by sqrt(R)", (" / std::sqrt(phi.size())", "")),
    ("06", "cos gives trigonometric features", ("std::exp(u - square / 2)", "std::cos(u) * std::exp(square / 2)")),
    ("06", "it writes outside of the rows", ("  double square", "  phi.begin()[phi.size()] = 1;\n  double square")),
    ("07", "take the row's largest log out before exp", UNSHIFTED),
    ("07", "an epsilon in the denominator", UNSHIFTED, ("/= sum", "/= sum + 1e-6f")),
    ("07", "your maximum is over the whole sequence", ("for (int j = 0; j <= i; ++j)\n      for (int f = 0; f < F; ++f) largest",
                                                       "for (int j = 0; j < v.size(); ++j)\n      for (int f = 0; f < F; ++f) largest")),
    ("08", "you add; write v minus what the key gives back", ("(v[m] - read)", "(v[m] - 0 * read)")),
    ("08", "decay first, then take the error", ("(S[f][m] *= a)", "S[f][m]"), ("S[f][m] += beta", "S[f][m] = a * S[f][m] + beta")),
    ("08", "divide k and q by their sums", ("of_k += x", "of_k = 1 + 0 * x"), ("of_q += x", "of_q = 1 + 0 * x")),
    ("08", "decay S, then write", ("S[f][m] += beta", "S[f][m] += a * beta")),
]


def edited(number, edits):
    text = SOLUTIONS[number]
    for old, new in edits:
        if old.endswith("..."):
            first = text.index(old[:-3])
            text = text[:first] + new
        else:
            assert old in text, f"the solution of {number} has no '{old}'"
            text = text.replace(old, new)
    return text


def check(*arguments):
    run = subprocess.run([CHECK, *arguments], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def main():
    numbers = sys.argv[1:] or list(SOLUTIONS)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LINEA_EXERCISES"] = folder
        mine = pathlib.Path(folder) / "mine.cpp"
        for number in numbers:
            if check(number)[0] != 1:
                wrong.append(f"the starter of {number} does not fail")
            path = str(HERE / "solutions" / f"{number}.cpp")
            code, output = check(number, "--file", path, "--seed", "7")
            if code != 0 or sum(line.startswith("    ") for line in output.splitlines()) < 4:
                wrong.append(f"the solution of {number} fails, or shows nothing of Linea:\n{output}")
            found = json.loads(check(number, "--json", "--file", path)[1])
            if not found["solved"] or len(found["steps"]) < 2:
                wrong.append(f"--json of {number}: {found}")
        for number, hint, *edits in MISTAKES:
            if number not in numbers:
                continue
            mine.write_text(edited(number, edits))
            code, output = check(number, "--file", str(mine))
            said = [line for line in output.splitlines() if not line.endswith(" ok") and not line.startswith(f"{number} ")]
            if code != 1 or hint not in output or len(said) > 1:
                wrong.append(f"{number}, '{hint}': exit code {code}, and it says\n{output}")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
