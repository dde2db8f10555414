// The builder of tile programs, and kernels that run them.
#include <algorithm>
#include <utility>

#include "emulator/kernels/tile/tile_planned.hpp"
#include "ir/op_def.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {

using ir::DType;
using ir::Shape;
using support::InternalError;

struct TileProgramBuilder::Impl {
  std::shared_ptr<PlannedProgram> program = std::make_shared<PlannedProgram>();

  int make_register(DType dtype) {
    auto& registers = program->registers_;
    if (registers.size() == kMaxRegisters) {
      throw InternalError("[tile program] a chain needs more than 256 registers. Cut it.");
    }
    registers.push_back({.dtype = dtype});
    return static_cast<int>(registers.size()) - 1;
  }

  TileBuffer make_buffer(DType dtype, const Shape& strides, int reg, bool load) {
    const size_t buffers = program->inputs_.size() + program->outputs_.size();
    if (buffers == kMaxChainBuffers || strides.size() != program->shape_.size()) {
      throw InternalError(support::str("[tile program] buffer ", buffers, " with ", strides.size(),
                                       " strides for ", program->shape_.size(), " dimensions."));
    }
    return {.dtype = dtype,
            .strides = strides,
            .reg = reg,
            .element_bytes = ir::size_of(dtype),
            .register_bytes = register_bytes(register_class(dtype)),
            .move = load ? load_fn(dtype) : store_fn(dtype)};
  }
};

namespace {

double round_to(DType dtype, double value) {
  if (dtype == DType::kF16) return ir::from_half_bits(ir::to_half_bits(value));
  if (dtype == DType::kBF16) return ir::from_bfloat16_bits(ir::to_bfloat16_bits(value));
  return value;
}

// Returns the operands that the op writes: its first results.
std::vector<int> written_operands(const ir::OpDef& def, const std::vector<int>& operands) {
  std::vector<int> written;
  for (int operand : def.writes) {
    if (operand < static_cast<int>(operands.size()) && operands[operand] >= 0) {
      written.push_back(operand);
    }
  }
  return written;
}

// Returns whether an update rounds what it writes at random.
bool writes_at_random(const ir::OpDef& def, const ir::Attrs& attrs) {
  const ir::AttrDef* option = def.find_attr("stochastic_rounding");
  const ir::Attr* given = option ? attrs.find(option->name) : nullptr;
  return given && std::get<bool>(*given);
}

// Returns the step of an op, without its registers.
TileStep step_of(const MicroQuery& query, uint64_t op_id) {
  const ir::OpDef& def = query.def;
  TileStep step;
  step.op = def.name;
  if (def.role == ir::Role::kCast) {
    const ir::DType from = query.operands[0], to = query.results[0];
    step.fn = cast_fn(from, to);
    const bool floats =
        register_class(from) == RegisterClass::kF32 && register_class(to) == RegisterClass::kF32;
    if (floats) step.held_fn = copy_held_fn();
    return step;
  }
  const MicroRow* row = find_micro_row(query);
  if (!row) {
    throw InternalError(support::str("[tile program] no micro-op for '", def.name,
                                     "' on these dtypes. Ask supports() first."));
  }
  step.fn = row->fn;
  step.product = row->product;
  step.halves = row->halves;
  step.held_fn = row->held_fn;
  step.random_fn = row->random_fn;
  if (row->immediates) step.immediates = row->immediates(query);
  if (def.random) step.rounding = {op_id, 0, std::get<bool>(query.attr("same_in_replicas"))};
  step.only_rounds = step.takes_index_step = def.random && !draws_in_order(def);
  return step;
}

}  // namespace

bool draws_in_order(const ir::OpDef& def) { return def.random && def.name != "stochastic_cast"; }

TileProgramBuilder::TileProgramBuilder(Shape shape) : impl_(new Impl) {
  impl_->program->shape_ = std::move(shape);
}
TileProgramBuilder::TileProgramBuilder(Shape shape, const Shape& numbers)
    : TileProgramBuilder(std::move(shape)) {
  if (numbers != ir::row_major_strides(impl_->program->shape_)) {
    impl_->program->numbers_.strides = numbers;
  }
}
TileProgramBuilder::~TileProgramBuilder() = default;

bool TileProgramBuilder::supports(const ir::OpDef& def, const ir::Attrs& attrs,
                                  const std::vector<DType>& operands,
                                  const std::vector<DType>& results) {
  auto held = [&](DType d) {
    const RegisterClass c = register_class(d);
    return c != RegisterClass::kNone && (c != RegisterClass::kF64 || !def.writes.empty());
  };
  if (!std::all_of(operands.begin(), operands.end(), held) ||
      !std::all_of(results.begin(), results.end(), held)) {
    return false;
  }
  return def.role == ir::Role::kCast || find_micro_row({def, attrs, operands, results}) != nullptr;
}

int TileProgramBuilder::input(const ir::Type& type) {
  return input(type.dtype, broadcast_strides(type.shape, impl_->program->shape_));
}

int TileProgramBuilder::input(DType dtype, const Shape& strides) {
  const int reg = impl_->make_register(dtype);
  impl_->program->registers_[reg].hyper_parameter = dtype == DType::kF64;
  impl_->program->inputs_.push_back(impl_->make_buffer(dtype, strides, reg, true));
  return reg;
}

int TileProgramBuilder::constant(DType dtype, double value) {
  const int reg = impl_->make_register(dtype);
  impl_->program->registers_[reg].value = round_to(dtype, value);
  impl_->program->registers_[reg].hyper_parameter = dtype == DType::kF64;
  impl_->program->constants_.push_back(reg);
  return reg;
}

std::vector<int> TileProgramBuilder::op(const ir::OpDef& def, const ir::Attrs& attrs,
                                        const std::vector<int>& operands,
                                        const std::vector<DType>& results, uint64_t op_id) {
  std::vector<DType> types;
  for (int reg : operands) {
    if (reg >= 0) types.push_back(impl_->program->registers_[reg].dtype);
  }
  TileStep step = step_of({def, attrs, types, results}, op_id);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k] >= 0 && def.operand_defs[k].constraint != "f64") {
      impl_->program->registers_[operands[k]].hyper_parameter = false;
    }
  }
  step.sources = operands;
  step.sources.resize(std::max(operands.size(), def.inputs.size()), -1);
  for (DType dtype : results) step.results.push_back(impl_->make_register(dtype));
  step.text = support::str("%", support::join(step.results, ", %"), " = ", def.name, " %",
                           support::join(operands, ", %"));
  std::vector<int> made = step.results;
  impl_->program->instructions_.push_back(std::move(step));
  if (def.exact || def.random) return made;
  // All replicas round the state that they write alike.
  const std::vector<int> written = written_operands(def, operands);
  const bool at_random = writes_at_random(def, attrs);
  for (size_t i = 0; i < made.size(); ++i) {
    const MicroFn narrow = narrow_fn(results[i]);
    if (!narrow) continue;
    if (ir::is_half(results[i])) impl_->program->registers_[made[i]].dtype = DType::kF32;
    const int rounded = impl_->make_register(results[i]);
    TileStep rounding{.op = "narrow",
                      .fn = narrow,
                      .product = {},
                      .sources = {made[i]},
                      .results = {rounded},
                      .immediates = {},
                      .text = {}};
    if (at_random && i < written.size() && ir::is_half(results[i])) {
      rounding.op = "round_at_random";
      rounding.fn = round_at_random_fn(results[i]);
      rounding.rounding = {op_id, static_cast<uint64_t>(written[i]), true};
      rounding.takes_index_step = true;
    }
    rounding.text = support::str("%", rounded, " = ", rounding.op, " %", made[i], " ", results[i]);
    impl_->program->instructions_.push_back(std::move(rounding));
    made[i] = rounded;
  }
  return made;
}

void TileProgramBuilder::output(int reg) {
  output(reg, ir::row_major_strides(impl_->program->shape_));
}

void TileProgramBuilder::output(int reg, const Shape& strides) {
  const DType dtype = impl_->program->registers_[reg].dtype;
  impl_->program->outputs_.push_back(impl_->make_buffer(dtype, strides, reg, false));
}

std::shared_ptr<const TileProgram> TileProgramBuilder::finish() {
  impl_->program->collapse();
  impl_->program->shorten();
  impl_->program->place();
  // Large models have many small programs, which live as long as the executable.
  impl_->program->instructions_.shrink_to_fit();
  impl_->program->registers_.shrink_to_fit();
  return std::exchange(impl_->program, std::make_shared<PlannedProgram>());
}

Shape broadcast_strides(const Shape& from, const Shape& to) {
  const Shape dense = ir::row_major_strides(from);
  Shape strides(to.size(), 0);
  for (size_t d = 0; d < from.size(); ++d) {
    const size_t at = to.size() - from.size() + d;
    if (from[d] != 1) strides[at] = dense[d];
  }
  return strides;
}

namespace {

class TileKernel final : public BoundKernel {
 public:
  explicit TileKernel(std::shared_ptr<const TileProgram> program)
      : program_(std::move(program)), elements_(ir::element_count(program_->shape())) {
    // Tasks take at least about 20 us and consist of whole cache lines.
    const int64_t ns = program_->estimated_ns(elements_);
    const int64_t wanted = std::clamp<int64_t>(ns / 20000, 1, 64);
    chunk_ = (elements_ + wanted - 1) / wanted;
    chunk_ = std::max<int64_t>((chunk_ + kMostTile - 1) / kMostTile * kMostTile, kMostTile);
    tasks_ = static_cast<int>((elements_ + chunk_ - 1) / chunk_);
  }
  int tasks(int) const override { return tasks_; }
  int64_t scratch_bytes() const override { return program_->scratch_bytes(); }
  int64_t estimated_ns() const override { return program_->estimated_ns(elements_); }
  void run(const KernelArgs& args, int, int task) const override {
    TileBlock block;
    block.first = task * chunk_;
    block.cols = std::min(chunk_, elements_ - block.first);
    program_->run(args.buffers, block, args.scratch, args.random);
  }
  bool divides_into(int64_t parts) const override { return elements_ % parts == 0; }
  void run_parts(const KernelArgs& args, int64_t begin, int64_t end, int64_t of) const override {
    const int64_t each = elements_ / of;
    program_->run(args.buffers, {.first = begin * each, .cols = (end - begin) * each}, args.scratch,
                  args.random);
  }

 private:
  std::shared_ptr<const TileProgram> program_;
  int64_t elements_, chunk_ = 0;
  int tasks_ = 0;
};

}  // namespace

std::unique_ptr<BoundKernel> bind_tile_program(std::shared_ptr<const TileProgram> program) {
  return std::make_unique<TileKernel>(std::move(program));
}

}  // namespace poptorch::emulator
