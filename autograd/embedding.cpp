#include "autograd/ops.h"
#include "tensor/ops.h"

namespace linea {

// y_r = E[id_r];  dE[s] = sum over r with id_r = s of dy_r
Var embedding(const Var& table, const Tensor& ids) {
  return Var::from_op("embedding", ops::embedding(table.value(), ids), table,
                      [ids, tokens = table.size(0)](const Tensor& dy) {
                        return ops::embedding_backward(ids, dy, tokens);
                      });
}

}  // namespace linea
