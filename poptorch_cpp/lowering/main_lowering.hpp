// The parts that all schedules of main share: its ops in their order, its inputs and outputs as
// streams, and the section that runs once per weight update.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.hpp"
#include "lowering/emitter.hpp"
#include "lowering/off_chip.hpp"
#include "lowering/op_lowering.hpp"

namespace poptorch::lowering {

class MainLowering {
 public:
  explicit MainLowering(const ir::Module& module);

  const ir::Module& module() const { return module_; }
  const ir::Graph& graph() const { return module_.main(); }
  const ir::Execution& execution() const { return module_.execution(); }
  Emitter& emitter() { return emitter_; }
  OpLowering& ops() { return ops_; }
  Frame& frame() { return frame_; }
  OffChip& off_chip() { return off_chip_; }
  const std::vector<const ir::Op*>& order() const { return order_; }

  // Lowers the op with its off-chip state, and the transfers of its results that main returns.
  void lower_op(const ir::Op& op);
  // Lowers the ops of one section, then calls store_late_outputs().
  void lower_section(bool outer);
  // Stores the inputs, constants and states that main returns: they are read when its work is done.
  void store_late_outputs(bool outer);
  // Emits the transfers to the host of a value that main returns, once.
  void store_output(const ir::Value* value);

  // Ends the program.
  program::Program finish();

 private:
  void declare_streams();
  void note_when_outputs_are_ready();
  void keep_anchored(std::vector<program::Stream>& streams) const;
  ir::Attrs transfer_attrs(const std::vector<std::string>& overlaps, size_t index) const;
  support::Symbol stream_name(const std::string& name, std::string_view kind, size_t index);
  void count_transfers(program::Program& program) const;
  void check_outer_is_last() const;

  const ir::Module& module_;
  Emitter emitter_;
  OpLowering ops_;
  Frame frame_;
  OffChip off_chip_;
  std::vector<const ir::Op*> order_;  // main's ops as they run
  std::unordered_map<const ir::Op*, std::vector<const ir::Value*>> ready_;  // look-up only
  std::set<std::string> stream_names_;
  std::unordered_map<const ir::Value*, std::vector<int>>
      outputs_;  // main's, not yet stored; look-up only
};

}  // namespace poptorch::lowering
