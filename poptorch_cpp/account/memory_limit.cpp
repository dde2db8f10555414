#include "account/memory_limit.hpp"

#include <algorithm>
#include <set>

#include "account/remedies.hpp"
#include "account/report.hpp"
#include "support/environment.hpp"
#include "support/error.hpp"
#include "support/log.hpp"
#include "support/strings.hpp"

namespace poptorch::account {
namespace {

using program::Base;
using program::Instruction;
using program::Program;
using program::Tensor;
using support::str;

constexpr size_t kTensorsTold = 10;
constexpr const char* kVariable = "POPTORCH_MEMORY_LIMIT";

// Records the instruction that makes each tensor.
void note_makers(const std::vector<Instruction>& block, std::vector<const Instruction*>& makers) {
  for (const Instruction& instruction : block) {
    for (program::TensorId id : instruction.outputs) {
      makers[id] = &instruction;
    }
    for (const auto& inner : instruction.blocks) note_makers(inner, makers);
  }
}

// Returns " in encoder.layer.0 of block 'front'"; empty for a tensor that no instruction makes.
std::string origin_text(const Instruction* maker) {
  if (!maker) return "";
  const std::string module = maker->scope.empty() ? "" : str(" in ", maker->scope);
  return maker->block.empty() ? module : str(module, " of block '", maker->block, "'");
}

std::string largest_tensors(const Program& program, int ipu) {
  std::vector<size_t> order;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    if (tensor.ipu == ipu && tensor.base != Base::kStream) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.tensors[a].type.bytes() > program.tensors[b].type.bytes();
  });
  std::vector<const Instruction*> makers(program.tensors.size(), nullptr);
  note_makers(program.ipus[ipu].body, makers);
  std::vector<std::string> texts;
  std::set<std::string> told;  // the ramps of a pipeline have separate tensors
  for (size_t i : order) {
    const Tensor& tensor = program.tensors[i];
    std::string text = str("'", tensor.name, "'", origin_text(makers[i]), " ", tensor.type, " ",
                           megabytes(tensor.type.bytes()));
    if (told.insert(text).second) texts.push_back(std::move(text));
    if (texts.size() == kTensorsTold) break;
  }
  return support::join(texts, ", ");
}

// Returns " (stages 0, 2)" or " (phase 1)"; empty if the program is not divided.
std::string place_text(const Program& program, int ipu) {
  std::string_view what = "phase";
  std::vector<int> numbers = numbers_of(program, ipu, &Instruction::phase);
  if (numbers.empty()) {
    what = "stage";
    if (program.ipus.size() > 1) numbers = numbers_of(program, ipu, &Instruction::stage);
  }
  if (numbers.empty()) return "";
  std::vector<std::string> texts;
  for (int number : numbers) texts.push_back(str(number));
  return str(" (", what, texts.size() > 1 ? "s " : " ", support::join(texts, ", "), ")");
}

std::string texts_of(const std::vector<Remedy>& remedies, int64_t over) {
  std::vector<std::string> texts;
  for (const Remedy& remedy : remedies) {
    texts.push_back(str(remedy.text, " (saves ", megabytes(remedy.saving),
                        remedy.saving >= over ? ", enough)" : ")"));
  }
  return support::join(texts, "; ");
}

std::string chip_overflow(const Program& program) {
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    const int ipu = static_cast<int>(i);
    const MemoryReport memory = memory_of(program, ipu);
    const int64_t over = memory.needed() - memory.capacity_bytes;
    if (over <= 0) continue;
    const int64_t other = memory.state_bytes - memory.weight_bytes - memory.optimiser_bytes -
                          memory.accumulator_bytes - memory.constant_bytes;
    return str("[memory] IPU ", i, place_text(program, ipu), " needs ", memory.needed(),
               " bytes but has ", memory.capacity_bytes, ": weights ",
               megabytes(memory.weight_bytes), ", optimiser state ",
               megabytes(memory.optimiser_bytes), ", accumulators ",
               megabytes(memory.accumulator_bytes), ", other state ", megabytes(other),
               ", constants ", megabytes(memory.constant_bytes), ", activations and temporaries ",
               megabytes(memory.arena_bytes), ", stashes of the pipeline ",
               megabytes(memory.stash_bytes), ", code about ", megabytes(memory.code_bytes),
               ". The largest tensors are ", largest_tensors(program, ipu), ". To save ",
               megabytes(over), ": ", texts_of(find_remedies(program, ipu, over), over), ".");
  }
  return "";
}

// Describes the largest tensors in Streaming Memory.
std::string largest_streamed(const Program& program) {
  std::vector<std::pair<int64_t, std::string>> sizes;
  for (const program::State& state : program.states) {
    if (!state.on_chip) {
      sizes.emplace_back(kept_bytes(state), state.slot.name.text());
    }
  }
  for (const ir::RemoteBuffer& buffer : program.remote_buffers) {
    sizes.emplace_back(buffer.type.bytes() * buffer.entries, buffer.name.text());
  }
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [bytes, name] : sizes) {
    if (texts.size() < kTensorsTold) texts.push_back(str("'", name, "' ", megabytes(bytes)));
  }
  return support::join(texts, ", ");
}

std::string streaming_overflow(const Program& program) {
  const StreamingReport memory = streaming_of(program);
  const int64_t over = memory.needed() - memory.capacity_bytes;
  if (over <= 0) return "";
  return str(
      "[memory] the ", program.ipus.size(), " IPUs of a replica need ", memory.needed(),
      " bytes of Streaming Memory but have ", memory.capacity_bytes, ": weights and buffers ",
      megabytes(memory.weight_bytes), ", optimiser state ", megabytes(memory.optimiser_bytes),
      ", accumulators ", megabytes(memory.accumulator_bytes), ", activations and remote buffers ",
      megabytes(memory.buffer_bytes), ". The largest tensors are ", largest_streamed(program),
      ". To save ", megabytes(over), ": ", texts_of(find_streaming_remedies(program), over), ".");
}

}  // namespace

std::string describe_overflow(const Program& program) {
  std::string text = chip_overflow(program);
  const std::string streaming = streaming_overflow(program);
  if (!text.empty() && !streaming.empty()) text += " ";
  return text + streaming;
}

const std::vector<std::string>& memory_limit_words() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all = {""};
    for (const support::Variable& variable : support::environment_variables()) {
      if (variable.name != kVariable) continue;
      all.insert(all.end(), variable.allowed.begin(), variable.allowed.end());
    }
    return all;
  }();
  return words;
}

const std::string& word(MemoryLimit limit) {
  return memory_limit_words().at(static_cast<size_t>(limit));
}

MemoryLimit memory_limit_of(const std::string& word) {
  const std::vector<std::string>& words = memory_limit_words();
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<MemoryLimit>(found - words.begin());
  throw support::UserError(str("[memory] the memory limit is '", word,
                               "'. Set Emulator.memoryLimit() to warn, error or off."));
}

void check_memory_limit(const Program& program, MemoryLimit asked) {
  if (asked == MemoryLimit::kUnset) {
    asked = memory_limit_of(support::environment_text(kVariable));
  }
  if (asked == MemoryLimit::kOff) return;
  const std::string text = describe_overflow(program);
  if (text.empty()) return;
  if (asked == MemoryLimit::kError) throw support::UserError(text);
  support::log(support::LogLevel::kWarn, text);
}

}  // namespace poptorch::account
