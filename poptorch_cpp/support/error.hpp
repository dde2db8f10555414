// The three kinds of error that leave the core. Their text follows one form:
// `[where] what is wrong, with both values. How to fix it.`
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace poptorch::support {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 std::source_location where = std::source_location::current())
      : std::runtime_error(message), where_(where) {}
  // The line of this project that raised the error. Code that raises it again with more text passes
  // the line on.
  const std::source_location& where() const { return where_; }
  // Returns that line as <file>:<line>, without folders.
  std::string origin() const {
    const std::string file = where_.file_name();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where_.line());
  }
  // Returns the context frames, innermost first, e.g. "pass eliminate_dead_ops", "compiling model
  // Net".
  const std::vector<std::string>& frames() const { return frames_; }
  void add_frame(std::string frame) { frames_.push_back(std::move(frame)); }
  // Returns the component that raised it, as PopTorch users see it in `poptorch.Error.type`.
  virtual const char* type() const { return "poptorch_cpp_error"; }

 private:
  std::source_location where_;
  std::vector<std::string> frames_;
};

// Calls `work`, and adds a context frame to an error that leaves it.
template <typename Work>
auto in_frame(const char* frame, Work work) {
  try {
    return work();
  } catch (Error& error) {
    error.add_frame(frame);
    throw;
  }
}

// The user's model, input or option is wrong.
class UserError : public Error {
  using Error::Error;
};

// A legal program needs something that this project does not have.
class UnsupportedError : public Error {
  using Error::Error;
};

// An invariant of this project is broken, which is always a bug in it.
class InternalError : public Error {
 public:
  using Error::Error;
  const char* type() const override { return "popart_internal_exception"; }
};

}  // namespace poptorch::support
