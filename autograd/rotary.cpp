#include "autograd/rotary.h"

#include <cmath>

#include "autograd/qkv_layout.h"
#include "tensor/launch.h"

namespace linea {
namespace {

void rotate(const Tensor& table, const HeadTensor& x, const HeadTensor& y, bool back) {
  LINEA_LAUNCH(rotate, x.data.dtype(), table, x, y, x.batches * x.heads, x.length, x.width, back);
}

Tensor turned_qk(const Tensor& table, const Tensor& qkv, int64_t heads, bool back) {
  const Tensor y = qkv.clone();
  for (const int64_t slot : {0, 1}) rotate(table, {qkv, slot, 3, heads}, {y, slot, 3, heads}, back);
  return y;
}

}  // namespace

Tensor rotary_table(int64_t first, int64_t count, int64_t width, DType dtype) {
  const int64_t half = width / 2;
  std::vector<double> frequencies, table;
  for (int64_t d = 0; d < half; ++d)
    frequencies.push_back(
        std::pow(10000.0, -2.0 * static_cast<double>(d) / static_cast<double>(width)));
  for (int64_t i = first; i < first + count; ++i) {
    for (const double f : frequencies) table.push_back(std::cos(static_cast<double>(i) * f));
    for (const double f : frequencies) table.push_back(std::sin(static_cast<double>(i) * f));
    if (width % 2 == 1) table.push_back(0);  // not read
  }
  return Tensor::from(table, {count, width}, dtype);
}

Tensor rotated(const Tensor& table, const Tensor& x, bool back) {
  const Tensor y(x.shape(), x.dtype());
  const Shape rows{x.shape().product(0, x.shape().rank() - 2), 1, x.size(-2), x.size(-1)};
  rotate(table, x.reshape(rows), y.reshape(rows), back);
  return y;
}

// dx = dy turned back
Var rotated(const Var& x, int64_t first) {
  const Tensor table = rotary_table(first, x.size(2), x.size(3), x.dtype());
  return Var::from_op("rotated", rotated(table, x.value()), {x},
                      [table](const Tensor& dy) { return rotated(table, dy, true); });
}

Var rotated_qk(const Var& qkv, int64_t heads, int64_t first) {
  const Tensor table = rotary_table(first, qkv.size(1), qkv.size(2) / (3 * heads), qkv.dtype());
  return Var::from_op(
      "rotated_qk", turned_qk(table, qkv.value(), heads, false), {qkv},
      [table, heads](const Tensor& dy) { return turned_qk(table, dy, heads, true); });
}

}  // namespace linea
