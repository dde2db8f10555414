// Executables on disk: another process can load a compilation's result. A file
// (storage/container.hpp) has these sections, and those that the front end adds, which the core
// does not read:
//
//   about      JSON: the version of this project, the state of the random numbers ...
//   execution  the module's description of its execution, as the lines of its text
//   program    the program form's text, with references to the lines of user code
//   state      safetensors: the slots by name, as read_state() returns them
//
// Loading needs neither tracer nor autodiff nor partitioner: the program is parsed and verified
// before anything of it runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "session/session.hpp"
#include "storage/container.hpp"

namespace poptorch::session {

struct SaveOptions {
  bool state = true;                          // else slots begin as the program says
  bool random_state = true;                   // else random numbers start again
  std::vector<std::string> input_names = {};  // as the user knows them
  std::vector<std::pair<std::string, std::string>> sections = {};  // of the front end: name, bytes
};

// Writes the executable to `path` atomically. UserError if that fails.
void save(const Executable& executable, const std::string& path, const SaveOptions& options = {});

struct Loaded {
  std::unique_ptr<Executable> executable;
  std::shared_ptr<const storage::Container> file;
  std::vector<std::string> input_names;  // empty if save() got none
};

// Loads the file at `path`. Its state is mapped copy-on-write. UserError `Invalid file <path>: ...`
// for a file of another version, a damaged file and any other file.
Loaded load_file(const std::string& path, const ir::Registry& registry,
                 const HostOptions& options = {});
// Loads a file that is open. Without `state`, slots begin as the program says.
std::unique_ptr<Executable> load(std::shared_ptr<const storage::Container> file,
                                 const ir::Registry& registry, const HostOptions& options = {},
                                 bool state = true);

}  // namespace poptorch::session
