#include "tensor/tuned_libraries.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tensor/backend.h"
#include "tensor/context.h"

namespace linea {
namespace {

// Run by the child of the test below as well.
TEST(TunedLibraries, ReturnsWhereTheyAreSet) {
  setenv("GOMP_SPINCOUNT", "1000", 0);
  setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  const std::string before = std::getenv("GOMP_SPINCOUNT");
  if (std::getenv("LINEA_CHILD_OF_TUNED") != nullptr) {
    EXPECT_EQ(before, "3000");
    EXPECT_EQ(better_blas_kernel(blas_info().kernel, cpu_backends().front()->isa), "");
  }
  restart_with_tuned_libraries(nullptr);
  EXPECT_EQ(std::getenv("GOMP_SPINCOUNT"), before);
}

TEST(TunedLibraries, StartsTheProgramAgain) {
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    setenv("LINEA_CHILD_OF_TUNED", "1", 1);
    char name[] = "test", only[] = "--gtest_filter=TunedLibraries.ReturnsWhereTheyAreSet";
    char* argv[] = {name, only, nullptr};
    restart_with_tuned_libraries(argv);
    _exit(99);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it did not start again, or without the variable";
}

// On the processors that OpenBLAS knows, its choice is right.
TEST(TunedLibraries, ReplaceTheKernelsOfAnUnknownProcessor) {
  EXPECT_EQ(better_blas_kernel("Prescott", "AVX-512"), "SkylakeX");
  EXPECT_EQ(better_blas_kernel("Prescott", "AVX2"), "Haswell");
  EXPECT_EQ(better_blas_kernel("Prescott", "128-bit"), "");
  EXPECT_EQ(better_blas_kernel("Zen", "AVX2"), "");
}

}  // namespace
}  // namespace linea
