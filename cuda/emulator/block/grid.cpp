#include "cuda/emulator/block/grid.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/emulator/block/block.h"
#include "cuda/emulator/checker.h"
#include "cuda/emulator/report.h"

namespace linea::emulator {

void run_grid(const Launch& launch) {
  static uint64_t launches = 0;
  install_signal_handlers();
  const ThreadOrder order = settings().thread_order;
  Random random((uint64_t{settings().seed} << 32) + ++launches);
  const auto [x, y, z] =
      std::tuple<uint64_t, uint64_t, uint64_t>{launch.grid.x, launch.grid.y, launch.grid.z};
  const uint64_t blocks = x * y * z;
  std::vector<uint32_t> shuffled;
  if (order == ThreadOrder::priority) {
    shuffled.resize(blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
      shuffled[i] = static_cast<uint32_t>(i);
      std::swap(shuffled[i], shuffled[random.below(static_cast<uint32_t>(i + 1))]);
    }
  }
  if (checker != nullptr) checker->on_launch(launch);
  block.begin(launch);
  for (uint64_t i = 0; i < blocks; ++i) {
    uint64_t number = order == ThreadOrder::reverse ? blocks - 1 - i : i;
    if (order == ThreadOrder::priority) number = shuffled[i];
    block.run({static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
               static_cast<unsigned>(number / (x * y))},
              Random(random.next()));
  }
  block.end();
}

}  // namespace linea::emulator
