#include <algorithm>

#include "emulator/bound/verify.hpp"
#include "emulator/kernels/base/kernel.hpp"
#include "program/program.hpp"

namespace poptorch::emulator {
namespace {

using program::Instruction;

class KernelVerifier {
 public:
  KernelVerifier(const Code& code, const InstructionTable& instructions, StepPlace place)
      : code_(code), instructions_(instructions), place_(place), step_(step_at(code, place)) {}

  void run() {
    if (step_.index < 0 || step_.index >= static_cast<int32_t>(code_.kernels.size())) {
      refuse_at(place_, "runs kernel ", step_.index, " of ", code_.kernels.size(), ".");
    }
    const Kernel& kernel = code_.kernels[step_.index];
    if (const auto* rows = std::get_if<RowsSpec>(&kernel.spec)) {
      check_rows(*rows);
    } else {
      check_member(kernel.spec);
    }
    check_origin(kernel.spec);
    check_arguments(kernel.spec);
    check_bound(kernel);
  }

 private:
  static const Step& step_at(const Code& code, StepPlace place) {
    return code.ipus[place.ipu].steps[place.step];
  }

  const Instruction& instruction(int32_t number) const {
    if (number < 0 || number >= static_cast<int32_t>(instructions_.size()) ||
        instructions_[number]->kind != Instruction::Kind::kCompute) {
      refuse_at(place_, "is made from instruction ", number, ", which computes nothing.");
    }
    return *instructions_[number];
  }

  const ir::Type* tensor_type(program::TensorId id) const {
    return id == program::kNoTensor ? nullptr : &code_.program->tensors[id].type;
  }

  void check_member(const KernelSpec& spec) const {
    const auto* op = std::get_if<OpSpec>(&spec);
    if (op) check_op(*op);
    for (const ChainSpec* chain : chains_of(spec)) check_chain(*chain, op);
  }

  void check_rows(const RowsSpec& spec) const {
    if (spec.rows < 1 || spec.members.empty()) {
      refuse_at(place_, "joins ", spec.members.size(), " kernels by ", spec.rows, " rows.");
    }
    if (spec.rows == 1 && !takes_runs(spec)) {
      refuse_at(place_, "joins other kernels than a chain and an op that takes what it makes.");
    }
    for (const RowsMember& member : spec.members) {
      const auto* op = std::get_if<OpSpec>(&member);
      if (op && op->epilogue) refuse_at(place_, "joins an op with an epilogue.");
      check_member(as_spec(member));
    }
  }

  bool takes_runs(const RowsSpec& spec) const {
    if (spec.members.size() != 2) return false;
    const auto* chain = std::get_if<ChainSpec>(&spec.members[0]);
    const auto* op = std::get_if<OpSpec>(&spec.members[1]);
    if (!chain || !op || op->inputs.size() != 1 || op->inputs[0] == kNoValue) return false;
    return std::ranges::any_of(chain->outputs, [&](ValueId id) {
      return code_.value(id).storage == code_.value(op->inputs[0]).storage;
    });
  }

  void check_op(const OpSpec& op) const {
    const Instruction& from = instruction(op.instruction);
    const KernelRow* row = all_kernels().find(from.op.text());
    check_types(op.inputs, from.inputs, "operands", row && row->reads_halves);
    for (ValueId id : op.inputs) {
      if (id == kNoValue || (row && row->reads_strides && row->reads_strides(code_.value(id).type)))
        continue;
      refuse_strided(id);
    }
    for (ValueId id : op.outputs) refuse_strided(id);
    check_types(op.outputs, from.outputs, "results", false);
    if (op.epilogue && op.outputs.empty()) refuse_at(place_, "has an epilogue, but no result.");
  }

  void refuse_strided(ValueId id) const {
    if (id == kNoValue || !code_.value(id).is_strided()) return;
    refuse_at(place_, "uses %", code_.value(id).name,
              ", which this kernel cannot read by its strides.");
  }

  void check_types(const std::vector<ValueId>& given,
                   const std::vector<program::TensorId>& expected, std::string_view what,
                   bool halves) const {
    if (given.size() != expected.size()) {
      refuse_at(place_, "has ", given.size(), " ", what, ", not ", expected.size(), ".");
    }
    for (size_t i = 0; i < given.size(); ++i) {
      const ir::Type* type = tensor_type(expected[i]);
      if ((given[i] == kNoValue) != (type == nullptr)) {
        refuse_at(place_, "has the ", what, " of another instruction: one is absent.");
      }
      if (type && !(code_.value(given[i]).type == *type) &&
          !(halves && is_half_of(code_.value(given[i]).type, *type))) {
        refuse_at(place_, "has ", code_.value(given[i]).type, " among its ", what, ", not ", *type,
                  ".");
      }
    }
  }

  // Returns whether `given` may stand for `wide`, as read_halves replaces it.
  static bool is_half_of(const ir::Type& given, const ir::Type& wide) {
    return ir::is_half(given.dtype) && wide.dtype == ir::DType::kF32 && given.shape == wide.shape;
  }

  // Checks that each op reads registers of its operands' types that were set before.
  // `op` has the chain as its epilogue.
  void check_chain(const ChainSpec& chain, const OpSpec* op) const {
    if (chain.outputs.empty() || chain.outputs.size() != chain.stored.size()) {
      refuse_at(place_, "stores ", chain.stored.size(), " registers into ", chain.outputs.size(),
                " values.");
    }
    std::vector<ir::DType> registers;
    for (ValueId id : chain.sources) {
      const bool own = op && registers.empty();
      if (own != (id == kNoValue))
        refuse_at(place_, "has an epilogue that does not begin with the result of its op.");
      registers.push_back(code_.value(own ? op->outputs[0] : id).type.dtype);
    }
    for (const ChainSpec::Op& one : chain.ops) check_chained(one, registers);
    for (size_t i = 0; i < chain.stored.size(); ++i) {
      refuse_strided(chain.outputs[i]);
      const ir::Type& type = code_.value(chain.outputs[i]).type;
      if (!(type.shape == code_.value(chain.outputs[0]).type.shape) ||
          type.dtype != register_type(registers, chain.stored[i])) {
        refuse_at(place_, "stores register ", chain.stored[i], " into %",
                  code_.value(chain.outputs[i]).name, ", a ", type, ".");
      }
    }
  }

  ir::DType register_type(const std::vector<ir::DType>& registers, int32_t number) const {
    if (number < 0 || number >= static_cast<int32_t>(registers.size())) {
      refuse_at(place_, "reads register ", number, " before it is set.");
    }
    return registers[number];
  }

  void check_chained(const ChainSpec::Op& one, std::vector<ir::DType>& registers) const {
    const Instruction& from = instruction(one.instruction);
    if (one.operands.size() != from.inputs.size()) {
      refuse_at(place_, "has ", one.operands.size(), " operands of '", from.op, "', not ",
                from.inputs.size(), ".");
    }
    for (size_t i = 0; i < one.operands.size(); ++i) {
      const ir::Type* type = tensor_type(from.inputs[i]);
      if ((one.operands[i] < 0) != (type == nullptr)) {
        refuse_at(place_, "has operands of '", from.op, "' of which another is absent.");
      }
      if (type && register_type(registers, one.operands[i]) != type->dtype) {
        refuse_at(place_, "reads register ", one.operands[i], " as ", type->dtype, ".");
      }
    }
    const ir::OpDef& def = code_.registry->get(from.op.text());
    for (program::TensorId id : results_of(def, from.inputs, from.outputs)) {
      registers.push_back(tensor_type(id)->dtype);
    }
  }

  // Checks what a step repeats of the kernel's first instruction.
  void check_origin(const KernelSpec& spec) const {
    const std::vector<int32_t> numbers = instructions_of(spec);  // none for a reorder
    const uint64_t op_id = numbers.empty() ? 0 : instruction(numbers[0]).op_id;
    const int offset = numbers.empty() ? 0 : instruction(numbers[0]).micro_batch_offset;
    if (step_.op_id != op_id || step_.micro_batch_offset != offset) {
      refuse_at(place_, "is of op ", step_.op_id, " and micro-batch ", step_.micro_batch_offset,
                ", but its instruction of op ", op_id, " and micro-batch ", offset, ".");
    }
  }

  void check_arguments(const KernelSpec& spec) const {
    const auto given = code_.ipus[place_.ipu].arguments(place_.step);
    if (!std::ranges::equal(given, arguments_of(code_, *code_.program, spec))) {
      refuse_at(place_, "has other arguments than its kernel.");
    }
  }

  // Checks the memory that a bound kernel asks for; a code that is being parsed has none yet.
  void check_bound(const Kernel& kernel) const {
    if (step_.kernel != kernel.bound.get()) refuse_at(place_, "runs another kernel than it names.");
    if (!kernel.bound) return;
    if (kernel.bound->scratch_bytes() > code_.scratch_bytes) {
      refuse_at(place_, "needs ", kernel.bound->scratch_bytes(), " bytes of scratch memory, not ",
                code_.scratch_bytes, ".");
    }
    const ValueId workspace = code_.ipus[place_.ipu].table[step_.workspace];
    const int64_t held = workspace == kNoValue ? 0 : code_.value(workspace).type.bytes();
    if (kernel.bound->workspace_bytes() != held) {
      refuse_at(place_, "needs a workspace of ", kernel.bound->workspace_bytes(), " bytes, not ",
                held, ".");
    }
  }

  const Code& code_;
  const InstructionTable& instructions_;
  StepPlace place_;
  const Step& step_;
};

}  // namespace

void verify_kernel(const Code& code, const InstructionTable& instructions, StepPlace place) {
  KernelVerifier(code, instructions, place).run();
}

}  // namespace poptorch::emulator
