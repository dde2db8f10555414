// Failures of the device. All other errors, of the program or of its options, are also derived from
// std::runtime_error. The text of each error says what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace poptorch {

// A transient failure. What the device held is lost: make a new Executor, with the weights of the
// module or of a checkpoint.
class RecoverableError : public std::runtime_error {
 public:
  RecoverableError(const std::string& message, std::string recovery_action)
      : std::runtime_error(message), recovery_action_(std::move(recovery_action)) {}
  // Returns "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET".
  const std::string& recovery_action() const { return recovery_action_; }

 private:
  std::string recovery_action_;
};

// A permanent failure: take the system out of operation. Every later Executor fails too.
class UnrecoverableError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace poptorch
