#include "tensor/short_spins.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace linea {
namespace {

// Run by the child of the test below as well.
TEST(ShortSpins, ReturnsWhereTheyAreSet) {
  setenv("GOMP_SPINCOUNT", "1000", 0);
  const std::string before = std::getenv("GOMP_SPINCOUNT");
  if (std::getenv("LINEA_CHILD_OF_SPINS") != nullptr) {
    EXPECT_EQ(before, "3000");
  }
  restart_with_short_spins(nullptr);
  EXPECT_EQ(std::getenv("GOMP_SPINCOUNT"), before);
}

TEST(ShortSpins, StartsTheProgramAgain) {
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    setenv("LINEA_CHILD_OF_SPINS", "1", 1);
    char name[] = "test", only[] = "--gtest_filter=ShortSpins.ReturnsWhereTheyAreSet";
    char* argv[] = {name, only, nullptr};
    restart_with_short_spins(argv);
    _exit(99);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it did not start again, or without the variable";
}

}  // namespace
}  // namespace linea
