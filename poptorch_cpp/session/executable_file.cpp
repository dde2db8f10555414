#include "session/executable_file.hpp"

#include <unordered_map>

#include "account/memory_limit.hpp"
#include "ir/execution.hpp"
#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "program/replica_groups.hpp"
#include "session/bind.hpp"
#include "storage/about.hpp"
#include "storage/safetensors.hpp"
#include "support/build_id.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/pass_faults.hpp"
#include "support/strings.hpp"

namespace poptorch::session {
namespace {

using storage::Container;
using storage::TensorPlace;
using support::str;

// Returns the execution's text without main's outputs, which the program's streams describe.
std::string execution_text(const ir::Execution& execution, const ir::Registry& registry) {
  ir::Module module(registry);
  module.execution() = execution;
  module.execution().whole_outputs = 0;
  module.execution().anchored.clear();
  return ir::print(module);
}

void write_state(const Executable& executable, storage::ContainerWriter& writer) {
  std::vector<TensorPlace> tensors;
  for (const ir::StateSlot& slot : executable.states()) {
    tensors.push_back({slot.name.text(), executable.state_type(slot)});
  }
  tensors = storage::placed(std::move(tensors));
  writer.add(storage::safetensors_header(tensors));
  std::vector<std::byte> bytes;
  for (const TensorPlace& tensor : tensors) {
    bytes.resize(static_cast<size_t>(tensor.type.bytes()));
    executable.read_state(tensor.name, bytes.data());
    writer.add(bytes.data(), bytes.size());
  }
}

// Finds each slot's values in the section `state`, after a check against the program.
class StateOfFile {
 public:
  StateOfFile(const Container& file, const program::Program& program)
      : pages_(file.private_pages("state")) {
    for (TensorPlace& place : storage::read_safetensors(file.read("state"), file.name())) {
      places_.emplace(place.name, std::move(place));
    }
    for (const program::State& state : program.states) {
      const auto found = places_.find(state.slot.name.text());
      ir::Type wanted = state.slot.type;
      if (state.slot.group_size > 0) {
        wanted.shape.insert(wanted.shape.begin(),
                            program::groups_of(state.slot, program.replicas).count());
      }
      if (found == places_.end() || found->second.type != storage::stored(wanted)) {
        throw support::UserError(str("[file] '", file.name(), "' is damaged: its program has the ",
                                     "state '", state.slot.name, "', ", state.slot.type,
                                     ", which is not among its tensors. Write it again."));
      }
    }
  }

  std::shared_ptr<std::byte> operator()(const program::State& state) const {
    return {pages_, pages_.get() + places_.at(state.slot.name.text()).offset};
  }

 private:
  std::shared_ptr<std::byte> pages_;
  std::unordered_map<std::string, TensorPlace> places_;  // look-up only
};

// Returns the file's program, verified. An error in it is a UserError, since the file is damaged.
compile::Compiled program_of(const Container& file, const ir::Registry& registry) {
  try {
    return compile::parsed(file.read("program"), registry);
  } catch (const support::InternalError& error) {
    throw support::UserError(
        str("[file] '", file.name(), "' is damaged: ", error.what(), " Write it again."));
  }
}

void check_version(const storage::About& about) {
  if (about.version == support::version()) return;
  throw support::UserError(
      str("PopTorch version mismatch: File was created with version: ", about.version,
          " and this is version ", support::version(), ". Export the model again with this one."));
}

}  // namespace

void save(const Executable& executable, const std::string& path, const SaveOptions& options) {
  storage::About about{.version = support::version(),
                       .highest_ipu = executable.highest_ipu(),
                       .input_names = options.input_names};
  if (options.random_state) about.random_state = executable.random_state();
  const size_t own = options.state ? 4 : 3;
  storage::ContainerWriter writer(path, own + options.sections.size());
  writer.begin("about");
  writer.add(storage::json_of(about));
  writer.begin("execution");
  writer.add(execution_text(executable.execution(), ops::registry()));
  writer.begin("program");
  writer.add(executable.text("program", /*locations=*/true));
  for (const auto& [name, bytes] : options.sections) {
    writer.begin(name);
    writer.add(bytes);
  }
  if (options.state) {  // last: it is long, and no other section has to move for it
    writer.begin("state");
    write_state(executable, writer);
  }
  writer.commit();
}

std::unique_ptr<Executable> load(std::shared_ptr<const Container> file,
                                 const ir::Registry& registry, const HostOptions& options,
                                 bool state) {
  support::check_environment();
  const support::CompilationFaults faults;
  const storage::About about = storage::about_of(file->read("about"), file->name());
  check_version(about);
  compile::Compiled forms = program_of(*file, registry);
  account::check_memory_limit(forms.program, options.early_memory_limit());
  forms.execution = ir::parse(file->read("execution"), registry, file->name())->execution();
  forms.highest_ipu = about.highest_ipu;
  if (state && file->has("state")) forms.state = StateOfFile(*file, forms.program);
  auto executable = bind(std::move(forms), registry, options);
  if (about.random_state) executable->set_random_state(*about.random_state);
  faults.finish();
  return executable;
}

Loaded load_file(const std::string& path, const ir::Registry& registry,
                 const HostOptions& options) {
  try {
    auto file = std::make_shared<const Container>(path);
    auto executable = load(file, registry, options);
    return {std::move(executable), file, storage::about_of(file->read("about"), path).input_names};
  } catch (const support::UserError& error) {
    throw support::UserError(str("Invalid file ", path, ": ", error.what()), error.where());
  }
}

}  // namespace poptorch::session
