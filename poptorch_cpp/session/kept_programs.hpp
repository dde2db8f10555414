// The newest compilations of this process. A module that differs from the traced module of one of
// them in nothing but device iterations gets its program and kernels, and no pass runs again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compile/compiled.hpp"

namespace poptorch::session {

class Executable;

class KeptPrograms {
 public:
  static KeptPrograms& of_process();

  // Returns the forms of an equal compilation, with the module as its traced form and the bound
  // program. Returns nullopt, and leaves the module as it is, if there is none.
  std::optional<compile::Compiled> find(std::unique_ptr<ir::Module>& module,
                                        const compile::HostOptions& options);

  // Keeps a compilation, and drops those that were not used for the longest time while all together
  // are too many or too large. A large one is kept until find() looks for another module, so that
  // no compilation has less memory for it. Those beyond all limits are not kept, nor those whose
  // passes logged a warning or depend on operators that a library registered, nor those that find()
  // returned.
  void keep(const compile::Compiled& forms, std::shared_ptr<const emulator::BoundProgram> bound,
            const compile::HostOptions& options);

 private:
  struct Entry {
    compile::Compiled forms;
    std::string settings;
    int64_t instructions = 0;
    int64_t bytes = 0;  // of constants
  };

  // Returns an entry with an equal module, and makes it the newest; or null.
  std::shared_ptr<const Entry> entry_of(ir::Module& module, const std::string& settings);

  void drop_large();
  bool exceeds_limits() const;  // requires `mutex_`

  std::mutex mutex_;
  std::vector<std::shared_ptr<const Entry>> entries_;  // the last used first
  std::shared_ptr<const Entry> large_;
};

}  // namespace poptorch::session
