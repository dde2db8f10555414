// Writes a program's tensors, streams and nested instruction lists. It keeps one open block per
// IPU. A loop around several IPUs' work is thus opened and closed once, and is emitted only where
// it has a body.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "ir/module.hpp"
#include "program/program.hpp"
#include "support/table.hpp"
#include "target/device.hpp"

namespace poptorch::lowering {

class Emitter {
 public:
  Emitter(const ir::Module& module, const target::Device& device, int ipus);

  program::Program& program() { return program_; }
  const program::Program& program() const { return program_; }
  const target::Device& device() const { return device_; }

  // Stands for the IPU of the first use, as `ipu`.
  static constexpr int kUndecided = -1;
  program::TensorId add_tensor(program::Tensor tensor);
  program::TensorId arena_tensor(const ir::Type& type, support::Symbol name, int ipu);
  program::TensorId state_tensor(support::Symbol slot, int ipu);
  program::TensorId constant_tensor(const ir::Literal& literal, support::Symbol name);
  // Adds a tensor at the address of `id`: a result that an op writes over its operand.
  program::TensorId alias(program::TensorId id, const ir::Type& type, support::Symbol name);
  const program::Tensor& tensor(program::TensorId id) const { return program_.tensors[id]; }
  // Returns `id` as `user` sees it on `ipu`, where constants and unwritten states exist as well.
  // Throws InternalError for another value that is elsewhere, and UserError for a weight on two
  // IPUs. `user` is nullptr for main's outputs.
  program::TensorId on_ipu(program::TensorId id, int ipu, const ir::Op* user);
  void note_write(program::TensorId id);
  // Sets where the slot is kept: off the chip it takes no memory of its IPU, in shards a part.
  void move_state(support::Symbol slot, bool on_chip, int shards);
  const program::State& state_of(program::TensorId id) const {
    return program_.states[tensor(id).index];
  }
  // Makes the transfer of `stream` that produces `id` be emitted before its first use.
  void load_on_first_use(program::TensorId id, int stream, ir::Attrs attrs);

  int find_stream(support::Symbol name) const;
  int find_remote(support::Symbol name) const;

  void emit(int ipu, program::Instruction instruction);
  int64_t emitted() const { return emitted_; }           // instructions so far
  int64_t host_cycles(program::TensorId id) const;       // of a transfer to or from the host
  int64_t streaming_cycles(program::TensorId id) const;  // of one with Streaming Memory
  // Makes all IPUs wait for each other, if there are several.
  void meet();
  void open_block();
  // Closes the block. Returns the bodies since open_block(), by IPU.
  std::vector<std::vector<program::Instruction>> close_block();
  // Closes the block as a loop on every IPU that has work in it.
  void close_loop(int64_t count, bool per_micro_batch, const ir::Op* origin = nullptr);
  // Closes the block as the rounds of a pipeline. `ahead` is by IPU: see pipeline.hpp.
  void close_rounds(int64_t count, const std::vector<int>& ahead);
  int new_channel() { return channels_++; }

  // Ends the program: sets the bodies, the places of states, and the bytes that each IPU needs.
  program::Program finish();

 private:
  void place_states();
  void check_written_copies() const;

  const target::Device& device_;
  program::Program program_;
  support::Table<int, std::vector<std::vector<program::Instruction>>>
      open_;       // by IPU, innermost last
  bool outlines_;  // equal work shares its code
  std::map<support::Symbol, program::TensorId> state_tensors_;
  std::map<std::pair<program::TensorId, int>, program::TensorId> copies_;  // by tensor and IPU
  std::map<program::TensorId, std::pair<int, ir::Attrs>> pending_streams_;
  std::set<int32_t> written_states_;
  int channels_ = 0;
  int64_t emitted_ = 0;
};

// Copies placement, scope and location of `op` to the instruction.
void set_origin(program::Instruction& instruction, const ir::Op& op, uint64_t op_id);

}  // namespace poptorch::lowering
