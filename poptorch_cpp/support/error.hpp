// The three kinds of error that leave the core. Their text follows one form:
// `[where] what is wrong, with both values. How to fix it.`
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace poptorch::support {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // Context frames, innermost first, e.g. "pass eliminate_dead_ops", "compiling model Net".
  const std::vector<std::string>& frames() const { return frames_; }
  void add_frame(std::string frame) { frames_.push_back(std::move(frame)); }
  // The component that raised it, as PopTorch users see it in `poptorch.Error.type`.
  virtual const char* type() const { return "poptorch_cpp_error"; }

 private:
  std::vector<std::string> frames_;
};

// The user's model, input or option is wrong.
class UserError : public Error {
  using Error::Error;
};

// A legal program that needs something we do not have.
class UnsupportedError : public Error {
  using Error::Error;
};

// A broken invariant of ours: always a bug in this project.
class InternalError : public Error {
 public:
  using Error::Error;
  const char* type() const override { return "poptorch_internal_error"; }
};

}  // namespace poptorch::support
