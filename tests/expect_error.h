// Errors that must say certain things.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/error.h"

namespace linea {

// The message must be one line and hold every fragment.
template <typename Action>
void expect_error(ErrorKind kind, std::initializer_list<std::string> fragments, Action action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), kind) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& fragment : fragments)
      EXPECT_NE(message.find(fragment), std::string::npos)
          << "'" << fragment << "' is not in: " << message;
    return;
  }
  ADD_FAILURE() << "no error";
}

// The whole message of the ErrorKind::usage that `body` throws.
template <typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "no error";
}

}  // namespace linea
