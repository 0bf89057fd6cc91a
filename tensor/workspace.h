// Shared by kernels of all devices: temporary memory, and the number of valid keys.
#pragma once

#include "tensor/kernels.h"

namespace linea {

// Temporary memory of a kernel on its device, `count` elements of T.
template <typename T>
class Workspace {
 public:
  Workspace(const Context& ctx, int64_t count)
      : allocator_(*ctx.workspace),
        bytes_(static_cast<size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(allocator_.allocate(bytes_))) {}
  ~Workspace() { allocator_.release(data_, bytes_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  T* data() const { return data_; }

 private:
  Allocator& allocator_;
  size_t bytes_;
  T* data_;
};

LINEA_HOST_DEVICE inline int64_t valid_keys(const ValidKeys& valid, int64_t bh, int64_t all) {
  if (valid.count == nullptr) return all;
  const int64_t count = valid.count[(valid.first_bh + bh) / valid.heads];
  return count < all ? count : all;
}

}  // namespace linea
