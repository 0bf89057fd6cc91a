#include "tensor/schedule.h"

#include "base/scoped.h"
#include "base/shares.h"
#include "tensor/context.h"

namespace linea {

void on_threads(int64_t count, const std::function<void(int64_t, int)>& body) {
  Context each = context();
  each.threads = 1;
  cpu::share_items(count, context().threads, [&](int64_t item, int thread) {
    const Scoped<Context> own(context(), each);
    body(item, thread);
  });
}

int64_t for_all_threads(int64_t each) { return each * context().threads; }

Schedule::Schedule(int64_t pieces, int64_t size, bool whole)
    : pieces_(pieces), size_(size), threads_(whole ? context().threads : 1) {}

Schedule Schedule::of_sums(int64_t pieces) {
  if (context().device.kind != DeviceKind::cpu) return {1, 1, false};
  return {pieces, 1, pieces >= for_all_threads(2)};
}

Schedule Schedule::in_cache(int64_t items, int64_t size, bool many_kernels, bool sums) {
  constexpr int64_t kFixedCut = 4;  // times `size`, of pieces with sums
  bool whole = false;
  if (context().device.kind == DeviceKind::cpu) {
    whole = many_kernels && !sums && items > for_all_threads(size);
    if (!whole) size = sums ? kFixedCut * size : for_all_threads(size);
  }
  return {(items + size - 1) / size, size, whole};
}

}  // namespace linea
