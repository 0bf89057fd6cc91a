#include "tensor/schedule.h"

#include <omp.h>

#include "base/region_error.h"
#include "base/scoped.h"
#include "base/shares.h"
#include "tensor/context.h"

namespace linea {

void on_threads(int64_t count, const std::function<void(int64_t, int)>& body) {
  const int threads = context().threads;
  if (threads == 1) {
    for (int64_t item = 0; item < count; ++item) body(item, 0);
    return;
  }
  Context each = context();
  each.threads = 1;
  cpu::RegionError error;
  cpu::Shares shares(count, threads);
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    const Scoped<Context> own(context(), each);
    shares.each(thread, [&](int64_t item) { error.run([&] { body(item, thread); }); });
  }
  error.rethrow();
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
