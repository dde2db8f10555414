// Executables on disk: what a compilation made, for another process. A file (storage/container.hpp)
// has these sections, and those that the front end adds, which the core does not look into:
//
//   about      JSON: the version of this project, the state of the random numbers ...
//   execution  how the module asked to be executed, as the lines of its text
//   program    the program form's text, with the lines of the user's source
//   state      safetensors: the slots by name, as read_state() gives them
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
  bool random_state = true;                   // else random numbers begin anew
  std::vector<std::string> input_names = {};  // as the user knows them
  std::vector<std::pair<std::string, std::string>> sections = {};  // of the front end: name, bytes
};

// Writes the executable to `path`, whole or not at all. UserError where that cannot be done.
void save(const Executable& executable, const std::string& path, const SaveOptions& options = {});

struct Loaded {
  std::unique_ptr<Executable> executable;
  std::shared_ptr<const storage::Container> file;
  std::vector<std::string> input_names;  // empty: nobody said
};

// The file at `path`. Its state is mapped: memory is copied where a run writes. UserError `Invalid
// file <path>: ...` for another version's, for what is damaged and for what is none.
Loaded load_file(const std::string& path, const ir::Registry& registry,
                 const HostOptions& options = {});
// As above, of a file that is open. Without `state`, slots begin as the program says.
std::unique_ptr<Executable> load(std::shared_ptr<const storage::Container> file,
                                 const ir::Registry& registry, const HostOptions& options = {},
                                 bool state = true);

}  // namespace poptorch::session
