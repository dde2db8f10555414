// Reads the text of an error that a test expects.
#pragma once

#include <string>

namespace poptorch {

// Returns the text of the `Error` that `action` throws, or "no error" if it throws none.
template <typename Error, typename Action>
std::string text_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace poptorch
