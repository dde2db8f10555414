// Helpers that the tests of the C++ API share.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

// The text of the error that a call ends with.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

// The lines of a module's text that say how it is executed.
inline std::string execution_of(const std::string& text) {
  return text.substr(0, text.find("state "));
}
