// Embedding ops of tensor/ops.h.
#include "tensor/launch.h"
#include "tensor/ops.h"

namespace linea::ops {

void require_ids(const char* op, const Tensor& ids, int64_t min, int64_t vocab_size) {
  require(ids.dtype() == DType::i32, "{}: tokens are i32, not {}", op, name_of(ids.dtype()));
  if (ids.device().kind != DeviceKind::cpu) return;
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i)
    require(id[i] >= min && id[i] < vocab_size, "{}: the token {} at index {} is not one of 0..{}",
            op, id[i], i, vocab_size - 1);
}

Tensor embedding(const Tensor& table, const Tensor& ids) {
  require_ids("embedding", ids, 0, table.size(0));
  std::vector<int64_t> sizes = ids.shape().sizes();
  sizes.push_back(columns(table));
  Tensor y(Shape(sizes), table.dtype());
  launch(table.dtype(), "embedding", [&](const auto& kernel) {
    kernel.embedding(context(), data(table), data(ids), data(y), ids.numel(), columns(table));
  });
  return y;
}

Tensor embed_position(const Tensor& table, const Tensor& ids, const Tensor& position_table,
                      const Tensor& positions, DType dtype) {
  require_ids("embed_position", ids, 0, table.size(0));
  require_ids("embed_position", positions, 0, position_table.size(0));
  require(columns(position_table) == columns(table) && positions.numel() == ids.numel(),
          "embed_position: tokens {}, positions {}, ids {} and position ids {} do not match",
          table.shape(), position_table.shape(), ids.shape(), positions.shape());
  Tensor y({ids.numel(), columns(table)}, dtype);
  launch(dtype, "embed_position", [&](const auto& kernel) {
    kernel.embed_position(context(), data(table), data(ids), data(position_table), data(positions),
                          data(y), ids.numel(), columns(table));
  });
  return y;
}

Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t vocab_size) {
  require_ids("embedding_backward", ids, 0, vocab_size);
  Tensor dtable({vocab_size, columns(dy)}, dy.dtype());
  launch(dy.dtype(), "embedding_backward", [&](const auto& kernel) {
    kernel.embedding_backward(context(), data(ids), data(dy), data(dtable), ids.numel(), vocab_size,
                              columns(dy));
  });
  return dtable;
}

}  // namespace linea::ops
