// Lowers one op at a time to instructions: operands on its IPU, called graphs inlined, regions as
// nested blocks. The schedules decide when, and around what transfers, the ops of main run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/module.hpp"
#include "lowering/emitter.hpp"
#include "partition/regions.hpp"
#include "support/flat_map.hpp"

namespace poptorch::lowering {

// Maps the values of the current graph to tensors of the program.
struct Frame {
  support::FlatMap<const ir::Value*, program::TensorId> values = {};
  int ipu = 0;           // of ops that name none
  uint64_t call_id = 0;  // of the call that the graph runs for; 0: main
  bool nested = false;   // a graph that an op runs, which lacks copies between IPUs
};

class OpLowering {
 public:
  explicit OpLowering(Emitter& emitter) : emitter_(emitter) {}

  // Emits the op and notes in `frame` what its results are.
  void lower(const ir::Op& op, Frame& frame);
  int64_t move_cycles(const ir::Type& type) const;

  // Takes the receive of an ipu_copy on another IPU. Without one, it is emitted at once.
  using Arrival = std::function<void(const ir::Op& copy, int ipu, program::Instruction receive)>;
  void set_arrival(Arrival arrival) { arrival_ = std::move(arrival); }

 private:
  using TensorId = program::TensorId;

  int ipu_of(const ir::Op& op, const Frame& frame) const;
  TensorId operand(const ir::Op& op, size_t i, const Frame& frame, int ipu);
  std::vector<TensorId> arguments_of(const ir::Op& op, const Frame& frame);
  TensorId on_ipu(TensorId id, const ir::Op& op, const Frame& frame, int ipu);
  std::pair<program::Instruction, program::Instruction> transfer(const ir::Op& op,
                                                                 const Frame& frame, TensorId from,
                                                                 TensorId to);
  program::Instruction started(const ir::Op& op, const Frame& frame,
                               program::Instruction::Kind kind) const;
  uint64_t key_of(const ir::Op& op);
  TensorId define(const ir::Op& op, size_t i, Frame& frame, int ipu);
  TensorId copy(TensorId from, int ipu);
  void copy_to(TensorId from, TensorId to, int ipu);
  void rewrite(const std::vector<TensorId>& to, std::vector<TensorId> from,
               const std::vector<int>& ipus);
  void prepare_write(program::Instruction& instruction, size_t index, int ipu);
  void set_cost(const ir::Op& op, program::Instruction& instruction);

  void lower_variable(const ir::Op& op, Frame& frame);
  void lower_constant(const ir::Op& op, Frame& frame);
  void lower_compute(const ir::Op& op, Frame& frame);
  void lower_ipu_copy(const ir::Op& op, Frame& frame);
  void lower_host_load(const ir::Op& op, Frame& frame);
  void lower_host_store(const ir::Op& op, Frame& frame);
  void lower_remote_load(const ir::Op& op, Frame& frame);
  void lower_remote_store(const ir::Op& op, Frame& frame);

  // Runs the body with its inputs bound to `arguments`; returns what its outputs are.
  std::vector<TensorId> lower_body(const ir::Op& op, const ir::Graph& body,
                                   const std::vector<TensorId>& arguments, const Frame& frame);
  void lower_call(const ir::Op& op, Frame& frame);
  void lower_repeat(const ir::Op& op, Frame& frame);
  void lower_if(const ir::Op& op, Frame& frame);

  partition::Regions regions_;
  Emitter& emitter_;
  Arrival arrival_;
  std::unordered_map<uint64_t, const ir::OpDef*> drawn_;  // random ops by id; look-up only
  // Maps MultiConv, op, IPU and stage to the convolution that launches them all.
};

}  // namespace poptorch::lowering
