// What an action that must fail says.
#pragma once

#include <string>

namespace poptorch {

// The text of the `Error` that `action` throws; "no error" without one.
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
