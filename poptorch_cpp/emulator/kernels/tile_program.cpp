// Builds tile programs and runs them. A tile is up to kTile elements, gathered from at most
// kMaxSegments runs that are contiguous in the space's innermost dimension.
#include "emulator/kernels/tile_program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/kernels/tile_steps.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;
using ir::Shape;
using support::InternalError;

constexpr int64_t kTile = 512;
// A run of this many elements is a tile of its own, used where it stands instead of gathered.
constexpr int64_t kDirect = 128;
constexpr int kMaxSegments = 64;
constexpr int kMaxBuffers = 40;
constexpr int kMaxRegisters = 256;
constexpr int kMaxDims = 12;

struct Buffer {
  DType dtype = DType::kF32;
  Shape strides;  // of the space, later of the collapsed space
  int reg = -1;
  bool uniform = false;  // one element for the whole space
  bool scalar = false;   // uniform, and read by number() alone: the memory is the register
  bool direct = false;   // used in place of, or written by, a register where the tile is contiguous
  int64_t element_bytes = 4;
  int64_t register_bytes = 4;  // of an element in a register
  MicroFn move = nullptr;      // load or store
};

class Program final : public TileProgram {
 public:
  const Shape& shape() const override { return shape_; }
  int inputs() const override { return static_cast<int>(inputs_.size()); }
  int outputs() const override { return static_cast<int>(outputs_.size()); }
  DType input_dtype(int i) const override { return inputs_[i].dtype; }
  DType output_dtype(int i) const override { return outputs_[i].dtype; }
  int64_t scratch_bytes() const override { return slots_ * slot_bytes_; }
  int64_t estimated_ns(int64_t elements) const override;
  std::string text() const override;
  void run(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
           const RandomKey& random) const override;

 private:
  friend class poptorch::emulator::TileProgramBuilder;
  struct Walk;

  void shorten();
  void place();
  void collapse();
  void run_tile(const Walk& walk, void** registers) const;
  void fill(int reg, const void* element, void* slot, int64_t count) const;

  Shape shape_;
  Shape sizes_;  // collapsed, innermost last
  std::vector<Buffer> inputs_, outputs_;
  std::vector<Instruction> instructions_;
  std::vector<Register> registers_;
  std::vector<int> constants_;  // registers
  int slots_ = 0;
  int64_t slot_bytes_ = kTile * 4;
  // Nothing but one op between memory and memory: a tile may be as long as its run.
  bool unbounded_ = false;
};

// Everything of one run(): where the current tile's segments are in every buffer.
struct Program::Walk {
  std::byte* const* buffers;
  const TileBlock* block;
  std::byte* scratch;
  int segments = 0;
  int64_t count = 0;                      // elements of the tile
  int64_t length[kMaxSegments];           // of each segment
  int64_t linear[kMaxSegments];           // in the space
  int64_t in_block[kMaxSegments];         // element of TileBlock::source
  int64_t index[kMaxSegments][kMaxDims];  // coordinates, when the space has several dimensions
};

int64_t offset_of(const Buffer& buffer, const int64_t* index, size_t dims) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims; ++d) offset += index[d] * buffer.strides[d];
  return offset;
}

// Copies segments between a strided buffer and a dense tile, converting.
void move_segment(const Buffer& buffer, std::byte* memory, int64_t stride, void* tile, int64_t n,
                  bool load) {
  const int64_t reg_bytes = buffer.register_bytes;
  MicroArgs args;
  if (stride == 1) {
    args.src[0] = load ? memory : tile;
    args.dst[0] = load ? tile : memory;
    buffer.move(args, n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::byte* element = memory + i * stride * buffer.element_bytes;
    std::byte* held = static_cast<std::byte*>(tile) + i * reg_bytes;
    args.src[0] = load ? element : held;
    args.dst[0] = load ? held : element;
    buffer.move(args, 1);
    if (load && stride == 0) {
      if (reg_bytes == 2) {
        std::fill_n(static_cast<uint16_t*>(tile), n, *static_cast<uint16_t*>(tile));
      } else if (reg_bytes == 4) {
        std::fill_n(static_cast<uint32_t*>(tile), n, *static_cast<uint32_t*>(tile));
      } else {
        std::fill_n(static_cast<uint64_t*>(tile), n, *static_cast<uint64_t*>(tile));
      }
      return;
    }
  }
}

void Program::fill(int reg, const void* element, void* slot, int64_t count) const {
  Buffer scalar{.dtype = registers_[reg].dtype,
                .strides = {},
                .element_bytes = 0,
                .register_bytes = register_bytes(register_class(registers_[reg].dtype)),
                .move = load_fn(registers_[reg].dtype)};
  move_segment(scalar, static_cast<std::byte*>(const_cast<void*>(element)), 0, slot, count, true);
}

void Program::run_tile(const Walk& walk, void** registers) const {
  const size_t dims = sizes_.size();
  const int64_t n = walk.count;
  auto address = [&](const Buffer& buffer, std::byte* base, int s) {
    const int64_t offset =
        dims == 1 ? walk.linear[s] * buffer.strides[0] : offset_of(buffer, walk.index[s], dims);
    return base + offset * buffer.element_bytes;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Buffer& in = inputs_[i];
    if (in.uniform || in.reg < 0) continue;
    const bool own = i == 0 && walk.block->source != nullptr;
    const int64_t stride = own ? 1 : in.strides[dims - 1];
    std::byte* slot = walk.scratch + registers_[in.reg].slot * slot_bytes_;
    registers[in.reg] = slot;
    int64_t done = 0;
    for (int s = 0; s < walk.segments; ++s) {
      std::byte* from =
          own ? const_cast<std::byte*>(walk.block->source) + walk.in_block[s] * in.element_bytes
              : address(in, walk.buffers[i], s);
      if (in.direct && stride == 1 && walk.segments == 1) {
        registers[in.reg] = from;
      } else {
        move_segment(in, from, stride, slot + done * in.register_bytes, walk.length[s], true);
      }
      done += walk.length[s];
    }
  }
  for (const Buffer& out : outputs_) {
    if (!out.direct) continue;
    const size_t o = &out - outputs_.data();
    const bool dense = out.strides[dims - 1] == 1 && walk.segments == 1;
    registers[out.reg] = dense ? address(out, walk.buffers[inputs_.size() + o], 0)
                               : walk.scratch + registers_[out.reg].slot * slot_bytes_;
  }
  for (const Instruction& step : instructions_) {
    MicroArgs args;
    for (size_t k = 0; k < step.sources.size(); ++k) {
      args.src[k] = step.sources[k] < 0 ? nullptr : registers[step.sources[k]];
    }
    for (size_t k = 0; k < step.results.size(); ++k) args.dst[k] = registers[step.results[k]];
    args.immediates = step.immediates.data();
    step.fn(args, n);
  }
  for (const Buffer& out : outputs_) {
    const size_t o = &out - outputs_.data();
    const int64_t stride = out.strides[dims - 1];
    if (out.direct && stride == 1 && walk.segments == 1) continue;
    auto* tile = static_cast<std::byte*>(registers[out.reg]);
    for (int s = 0; s < walk.segments; ++s) {
      move_segment(out, address(out, walk.buffers[inputs_.size() + o], s), stride, tile,
                   walk.length[s], false);
      tile += walk.length[s] * out.register_bytes;
    }
  }
}

void Program::run(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
                  const RandomKey&) const {
  void* registers[kMaxRegisters];
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (registers_[r].slot >= 0) registers[r] = scratch + registers_[r].slot * slot_bytes_;
  }
  const int64_t widest = std::min(kTile, block.rows * block.cols);
  auto filled = [&](int reg) { return registers_[reg].first_only ? 1 : widest; };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Buffer& in = inputs_[i];
    if (in.scalar) {
      registers[in.reg] = buffers[i];
    } else if (in.uniform && !(i == 0 && block.source)) {
      fill(in.reg, buffers[i], registers[in.reg], filled(in.reg));
    } else if (in.uniform) {
      fill(in.reg, block.source, registers[in.reg], filled(in.reg));
    }
  }
  for (int reg : constants_) {
    const Register& r = registers_[reg];
    if (r.hyper_parameter) {
      registers[reg] = const_cast<double*>(&r.value);
      continue;
    }
    const RegisterClass held = register_class(r.dtype);
    for (int64_t i = 0; i < filled(reg); ++i) {
      if (held == RegisterClass::kF32) {
        static_cast<float*>(registers[reg])[i] = static_cast<float>(r.value);
      } else if (held == RegisterClass::kI32) {
        static_cast<int32_t*>(registers[reg])[i] = static_cast<int32_t>(r.value);
      } else if (held == RegisterClass::kI64) {
        static_cast<int64_t*>(registers[reg])[i] = static_cast<int64_t>(r.value);
      } else {
        static_cast<double*>(registers[reg])[i] = r.value;
      }
    }
  }
  Walk walk;
  walk.buffers = buffers;
  walk.block = &block;
  walk.scratch = scratch;
  const size_t dims = sizes_.size();
  const int64_t inner = sizes_[dims - 1];
  for (int64_t row = 0; row < block.rows; ++row) {
    int64_t linear = block.first + row * block.row_step;
    int64_t left = block.cols, col = 0;
    int64_t within = dims == 1 ? linear : linear % inner;
    while (left > 0) {
      const int64_t run = std::min(left, inner - within);
      if (run >= kDirect && walk.count > 0) {
        run_tile(walk, registers);
        walk.segments = 0, walk.count = 0;
      }
      const int s = walk.segments;
      const bool whole = unbounded_ && run >= kDirect;
      const int64_t length = whole ? run : std::min(run, kTile - walk.count);
      walk.length[s] = length;
      walk.linear[s] = linear;
      walk.in_block[s] = row * block.source_step + col;
      if (dims > 1) {
        int64_t rest = linear;
        for (size_t d = dims; d-- > 0;) {
          walk.index[s][d] = rest % sizes_[d];
          rest /= sizes_[d];
        }
      }
      ++walk.segments;
      walk.count += length;
      linear += length, col += length, left -= length, within += length;
      if (within == inner) within = 0;
      if (length >= kDirect || walk.count == kTile || walk.segments == kMaxSegments) {
        run_tile(walk, registers);
        walk.segments = 0, walk.count = 0;
      }
    }
  }
  if (walk.count > 0) run_tile(walk, registers);
}

int64_t Program::estimated_ns(int64_t elements) const {
  const int64_t moved = static_cast<int64_t>(inputs_.size() + outputs_.size());
  return 40 + elements * (2 * moved + 3 * static_cast<int64_t>(instructions_.size())) / 16;
}

std::string Program::text() const {
  std::string out;
  for (const Buffer& in : inputs_) {
    out += support::str("%", in.reg, " = load ", in.dtype, " ", ir::shape_text(in.strides), "\n");
  }
  for (const Instruction& step : instructions_) out += step.text + "\n";
  for (const Buffer& b : outputs_) {
    out += support::str("store %", b.reg, " ", b.dtype, " ", ir::shape_text(b.strides), "\n");
  }
  return out;
}

// Merges neighbouring dimensions that every buffer walks as one, and drops those of size 1.
void Program::collapse() {
  std::vector<Buffer*> all;
  for (Buffer& b : inputs_) all.push_back(&b);
  for (Buffer& b : outputs_) all.push_back(&b);
  std::vector<Shape> merged(all.size());
  for (size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == 1) continue;
    bool joins = !sizes_.empty();
    for (size_t b = 0; joins && b < all.size(); ++b) {
      joins = merged[b].back() == all[b]->strides[d] * shape_[d];
    }
    if (joins) {
      sizes_.back() *= shape_[d];
      for (size_t b = 0; b < all.size(); ++b) merged[b].back() = all[b]->strides[d];
    } else {
      sizes_.push_back(shape_[d]);
      for (size_t b = 0; b < all.size(); ++b) merged[b].push_back(all[b]->strides[d]);
    }
  }
  if (sizes_.empty()) {
    sizes_ = {1};
    for (size_t b = 0; b < all.size(); ++b) merged[b] = {b < inputs_.size() ? 0 : 1};
  }
  for (size_t b = 0; b < all.size(); ++b) all[b]->strides = merged[b];
  if (sizes_.size() > kMaxDims) throw InternalError("[tile program] too many dimensions.");
}

void Program::shorten() {
  std::vector<bool> uniform(registers_.size(), false);
  for (const Buffer& in : inputs_) {
    uniform[in.reg] =
        std::all_of(in.strides.begin(), in.strides.end(), [](int64_t s) { return s == 0; });
  }
  for (int reg : constants_) uniform[reg] = true;
  std::vector<int> stored;
  for (const Buffer& out : outputs_) stored.push_back(out.reg);
  shorten_steps(instructions_, registers_, uniform, stored);
  for (size_t o = 0; o < stored.size(); ++o) outputs_[o].reg = stored[o];
}

// Gives every register a slot, reused after its last use; decides which buffers stand for
// registers.
void Program::place() {
  const int steps = static_cast<int>(instructions_.size());
  int last_input_use = -1;
  for (int s = 0; s < steps; ++s) {
    for (int r : instructions_[s].sources) {
      if (r >= 0) registers_[r].last_use = s;
    }
  }
  for (Buffer& in : inputs_) {
    in.uniform =
        std::all_of(in.strides.begin(), in.strides.end(), [](int64_t s) { return s == 0; });
    in.scalar = in.uniform && in.dtype == DType::kF64 && registers_[in.reg].hyper_parameter;
    registers_[in.reg].hyper_parameter = in.scalar;
  }
  for (const Register& r : registers_) {
    const bool wide = register_bytes(register_class(r.dtype)) == 8;
    if (wide && !r.hyper_parameter) slot_bytes_ = kTile * 8;
  }
  for (std::vector<Buffer>* buffers : {&inputs_, &outputs_}) {
    for (Buffer& buffer : *buffers) {
      if (!registers_[buffer.reg].as_stored) continue;
      buffer.register_bytes = buffer.element_bytes;
      buffer.move = copy_halves;
    }
  }
  for (Buffer& in : inputs_) {
    in.direct = registers_[in.reg].as_stored || in.dtype == DType::kF32 ||
                in.dtype == DType::kI32 || in.dtype == DType::kI64;
    if (!in.uniform) last_input_use = std::max(last_input_use, registers_[in.reg].last_use);
  }
  for (Buffer& out : outputs_) {
    const bool from_input = std::any_of(inputs_.begin(), inputs_.end(),
                                        [&](const Buffer& in) { return in.reg == out.reg; });
    registers_[out.reg].last_use = steps;
    if (from_input) last_input_use = steps;
  }
  for (Buffer& out : outputs_) {
    // An output may be the memory of an input: write it only after the last input is read.
    int made = -1;
    for (int s = 0; s < steps; ++s) {
      const auto& results = instructions_[s].results;
      if (std::find(results.begin(), results.end(), out.reg) != results.end()) made = s;
    }
    const bool once = std::count_if(outputs_.begin(), outputs_.end(),
                                    [&](const Buffer& other) { return other.reg == out.reg; }) == 1;
    const bool held = registers_[out.reg].as_stored || out.dtype == DType::kF32 ||
                      out.dtype == DType::kI32 || out.dtype == DType::kI64;
    out.direct = held && once && made >= 0 && made >= last_input_use;
  }
  auto in_place = [](const Buffer& b) { return b.scalar || (b.direct && b.strides.back() == 1); };
  unbounded_ = steps == 1 && std::all_of(inputs_.begin(), inputs_.end(), in_place) &&
               std::all_of(outputs_.begin(), outputs_.end(), in_place) &&
               std::all_of(constants_.begin(), constants_.end(),
                           [&](int reg) { return registers_[reg].hyper_parameter; });
  std::vector<int> free;
  auto take = [&](int reg) {
    if (registers_[reg].slot >= 0) return;
    if (free.empty()) free.push_back(slots_++);
    registers_[reg].slot = free.back();
    free.pop_back();
  };
  // Inputs and constants live from the start; uniform ones and constants are filled once a run.
  std::vector<bool> permanent(registers_.size(), false);
  for (const Buffer& in : inputs_) {
    if (in.uniform) permanent[in.reg] = true;
    if (!in.scalar) take(in.reg);
  }
  for (int reg : constants_) {
    permanent[reg] = true;
    if (!registers_[reg].hyper_parameter) take(reg);
  }
  for (int s = 0; s < steps; ++s) {
    for (int r : instructions_[s].results) take(r);
    auto release = [&](int r) {
      if (r < 0 || permanent[r] || registers_[r].last_use > s) return;
      const int slot = registers_[r].slot;
      if (std::find(free.begin(), free.end(), slot) == free.end()) free.push_back(slot);
    };
    for (int r : instructions_[s].sources) release(r);
    for (int r : instructions_[s].results) release(r);
  }
}

}  // namespace

struct TileProgramBuilder::Impl {
  std::shared_ptr<Program> program = std::make_shared<Program>();

  int make_register(DType dtype) {
    auto& registers = program->registers_;
    if (registers.size() == kMaxRegisters) {
      throw InternalError("[tile program] a chain needs more than 256 registers. Cut it.");
    }
    registers.push_back({.dtype = dtype});
    return static_cast<int>(registers.size()) - 1;
  }

  Buffer make_buffer(DType dtype, const Shape& strides, int reg, bool load) {
    const size_t buffers = program->inputs_.size() + program->outputs_.size();
    if (buffers == kMaxBuffers || strides.size() != program->shape_.size()) {
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

// Results of these are representable wherever their operands are: no rounding needed.
bool is_exact(const std::string& op) {
  static const char* const kExact[] = {
      "neg",         "abs",         "relu",       "sign",       "identity", "detach", "maximum",
      "minimum",     "select",      "ceil",       "floor",      "trunc",    "round",  "eq",
      "ne",          "lt",          "le",         "gt",         "ge",       "isnan",  "isinf",
      "logical_not", "logical_and", "logical_or", "logical_xor"};
  return std::any_of(std::begin(kExact), std::end(kExact), [&](const char* e) { return op == e; });
}

double round_to(DType dtype, double value) {
  if (dtype == DType::kF16) return ir::from_half_bits(ir::to_half_bits(value));
  if (dtype == DType::kBF16) return ir::from_bfloat16_bits(ir::to_bfloat16_bits(value));
  return value;
}

}  // namespace

TileProgramBuilder::TileProgramBuilder(Shape shape) : impl_(new Impl) {
  impl_->program->shape_ = std::move(shape);
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
  return def.name == "cast" || find_micro_row({def, attrs, operands, results}) != nullptr;
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
                                        const std::vector<DType>& results, uint64_t) {
  std::vector<DType> types;
  for (int reg : operands) {
    if (reg >= 0) types.push_back(impl_->program->registers_[reg].dtype);
  }
  Instruction step;
  step.op = def.name;
  const MicroQuery query{def, attrs, types, results};
  if (def.name == "cast") {
    step.fn = cast_fn(types[0], results[0]);
  } else if (const MicroRow* row = find_micro_row(query)) {
    step.fn = row->fn;
    if (row->immediates) step.immediates = row->immediates(query);
  } else {
    throw InternalError(support::str("[tile program] no micro-op for '", def.name,
                                     "' on these dtypes. Ask supports() first."));
  }
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
  for (size_t i = 0; i < made.size() && !is_exact(def.name); ++i) {
    const MicroFn narrow = narrow_fn(results[i]);
    if (!narrow) continue;
    const int rounded = impl_->make_register(results[i]);
    impl_->program->instructions_.push_back(
        {.op = "round",
         .fn = narrow,
         .sources = {made[i]},
         .results = {rounded},
         .immediates = {},
         .text = support::str("%", rounded, " = round %", made[i], " ", results[i])});
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
  return std::exchange(impl_->program, std::make_shared<Program>());
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
    // Tasks of at least 20 us or so; whole cache lines each.
    const int64_t ns = program_->estimated_ns(elements_);
    const int64_t wanted = std::clamp<int64_t>(ns / 20000, 1, 64);
    chunk_ = (elements_ + wanted - 1) / wanted;
    chunk_ = std::max<int64_t>((chunk_ + kTile - 1) / kTile * kTile, kTile);
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
