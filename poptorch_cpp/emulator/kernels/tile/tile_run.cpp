// Runs tile programs. A tile is up to kTile elements, gathered from at most kMaxSegments runs that
// are contiguous in the space's innermost dimension.
#include <algorithm>

#include "emulator/kernels/tile/tile_planned.hpp"
#include "reference/rounding_bits.hpp"

namespace poptorch::emulator {
namespace {

// A run of at least this many elements is a separate tile, used in place instead of gathered.
constexpr int64_t kDirect = 128;
constexpr int kMaxSegments = 64;

int64_t offset_of(const TileBuffer& buffer, const int64_t* index, size_t dims) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims; ++d) offset += index[d] * buffer.strides[d];
  return offset;
}

template <typename Word>
void gather(const std::byte* memory, int64_t stride, void* tile, int64_t n) {
  const Word* from = reinterpret_cast<const Word*>(memory);
  Word* to = static_cast<Word*>(tile);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

// Copies segments between a strided buffer and a dense tile, with conversion.
void move_segment(const TileBuffer& buffer, std::byte* memory, int64_t stride, void* tile,
                  int64_t n, bool load) {
  const int64_t reg_bytes = buffer.register_bytes;
  MicroArgs args;
  if (stride == 1) {
    args.src[0] = load ? memory : tile;
    args.dst[0] = load ? tile : memory;
    buffer.move(args, n);
    return;
  }
  if (load && stride != 0 && buffer.direct && reg_bytes == 4) {
    return gather<uint32_t>(memory, stride, tile, n);
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

MicroArgs arguments_of(const TileStep& step, void* const* registers) {
  MicroArgs args;
  for (size_t k = 0; k < step.sources.size(); ++k) {
    args.src[k] = step.sources[k] < 0 ? nullptr : registers[step.sources[k]];
  }
  for (size_t k = 0; k < step.results.size(); ++k) args.dst[k] = registers[step.results[k]];
  args.immediates = step.immediates.data();
  return args;
}

reference::RoundingBits bits_of(const RandomRounding& rounding, RandomKey key) {
  key.op_id = rounding.op_id;
  if (rounding.same_in_replicas) key.replica = 0;
  return reference::RoundingBits(key, rounding.stream);
}

}  // namespace

// The state of one run(): the positions of the current tile's segments in every buffer.
struct PlannedProgram::Walk {
  std::byte* const* buffers;
  const TileBlock* block;
  std::byte* scratch;
  reference::RoundingBits random[kMaxRoundings];
  int segments = 0;
  int64_t count = 0;                      // elements of the tile
  bool together = true;                   // the segments are one run of the space
  bool source_together = true;            // and of TileBlock::source
  int64_t length[kMaxSegments];           // of each segment
  int64_t linear[kMaxSegments];           // in the space
  int64_t in_block[kMaxSegments];         // element of TileBlock::source
  int64_t index[kMaxSegments][kMaxDims];  // coordinates, when the space has several dimensions

  void clear() { segments = 0, count = 0, together = source_together = true; }

  // Notes whether the new last segment continues the one before it.
  void join_last() {
    const int s = segments - 1;
    if (s == 0) return;
    together = together && linear[s] == linear[s - 1] + length[s - 1];
    source_together = source_together && in_block[s] == in_block[s - 1] + length[s - 1];
  }
};

// Coordinates in a space that advance along its innermost dimension, by at most a run.
struct PlannedProgram::Position {
  const ir::Shape& sizes;
  int64_t index[kMaxDims];

  void set(int64_t linear) {
    for (size_t d = sizes.size(); d-- > 0;) {
      index[d] = linear % sizes[d];
      linear /= sizes[d];
    }
  }
  void advance(int64_t count) {
    size_t d = sizes.size() - 1;
    index[d] += count;
    while (d > 0 && index[d] == sizes[d]) {
      index[d] = 0;
      ++index[--d];
    }
  }
};

void PlannedProgram::fill(int reg, const void* element, void* slot, int64_t count) const {
  TileBuffer scalar{.dtype = registers_[reg].dtype,
                    .strides = {},
                    .element_bytes = 0,
                    .register_bytes = register_bytes(register_class(registers_[reg].dtype)),
                    .move = load_fn(registers_[reg].dtype)};
  move_segment(scalar, static_cast<std::byte*>(const_cast<void*>(element)), 0, slot, count, true);
}

std::byte* PlannedProgram::address(const Walk& walk, const TileBuffer& buffer, std::byte* base,
                                   int segment) const {
  const size_t dims = sizes_.size();
  const int64_t offset = dims == 1 ? walk.linear[segment] * buffer.strides[0]
                                   : offset_of(buffer, walk.index[segment], dims);
  return base + offset * buffer.element_bytes;
}

bool PlannedProgram::is_one_run(const Walk& walk, const TileBuffer& buffer) {
  return walk.segments == 1 || (buffer.dense && walk.together);
}

bool PlannedProgram::is_in_place(const Walk& walk, const TileBuffer& out) {
  return out.direct && out.strides.back() == 1 && is_one_run(walk, out);
}

void PlannedProgram::load_inputs(const Walk& walk, void** registers) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TileBuffer& in = inputs_[i];
    if (in.uniform || in.reg < 0) continue;
    const bool own = i == 0 && walk.block->source != nullptr;
    const int64_t stride = own ? 1 : in.strides.back();
    const bool one_run = own ? walk.source_together : is_one_run(walk, in);
    std::byte* slot = walk.scratch + registers_[in.reg].slot * slot_bytes_;
    registers[in.reg] = slot;
    int64_t done = 0;
    for (int s = 0; done < walk.count; ++s) {
      std::byte* from =
          own ? const_cast<std::byte*>(walk.block->source) + walk.in_block[s] * in.element_bytes
              : address(walk, in, walk.buffers[i], s);
      const int64_t length = one_run ? walk.count : walk.length[s];
      if (in.direct && stride == 1 && one_run) {
        registers[in.reg] = from;
      } else {
        move_segment(in, from, stride, slot + done * in.register_bytes, length, true);
      }
      done += length;
    }
  }
}

void PlannedProgram::store_output(const Walk& walk, const TileBuffer& out, std::byte* base,
                                  void* held) const {
  auto* tile = static_cast<std::byte*>(held);
  int64_t done = 0;
  for (int s = 0; done < walk.count; ++s) {
    const int64_t length = is_one_run(walk, out) ? walk.count : walk.length[s];
    move_segment(out, address(walk, out, base, s), out.strides.back(),
                 tile + done * out.register_bytes, length, false);
    done += length;
  }
}

void PlannedProgram::run_tile(const Walk& walk, void** registers) const {
  load_inputs(walk, registers);
  std::byte* const* stored = walk.buffers + inputs_.size();
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const TileBuffer& out = outputs_[o];
    if (!out.direct) continue;
    registers[out.reg] = is_in_place(walk, out)
                             ? address(walk, out, stored[o], 0)
                             : walk.scratch + registers_[out.reg].slot * slot_bytes_;
  }
  for (const TileStep& step : instructions_) {
    if (step.rounding) {
      run_at_random(walk, step, registers);
    } else {
      step.fn(arguments_of(step, registers), walk.count);
    }
  }
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const TileBuffer& out = outputs_[o];
    if (!is_in_place(walk, out)) store_output(walk, out, stored[o], registers[out.reg]);
  }
}

// Each element draws the bits of its index in the space. Where the upper half of the index changes,
// so does the key.
void PlannedProgram::run_at_random(const Walk& walk, const TileStep& step, void** registers) const {
  constexpr int64_t kSameKey = int64_t{1} << 32;
  const reference::RoundingBits& bits = walk.random[step.rounding->number];
  MicroArgs args = arguments_of(step, registers);
  args.key[1] = bits.second();
  for (int s = 0; s < walk.segments;) {
    int64_t at = walk.linear[s], end = at + walk.length[s];
    for (++s; s < walk.segments && walk.linear[s] == end; ++s) end += walk.length[s];
    while (at < end) {
      const int64_t count = std::min(end, (at / kSameKey + 1) * kSameKey) - at;
      args.index = static_cast<uint32_t>(at);
      args.key[0] = bits.first(static_cast<uint64_t>(at));
      step.fn(args, count);
      args.src[0] = args.in<float>(0) + count;
      args.dst[0] = args.out<float>() + count;
      at += count;
    }
  }
}

void PlannedProgram::fill_registers(std::byte* const* buffers, const TileBlock& block,
                                    std::byte* scratch, int64_t widest, void** registers) const {
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (registers_[r].slot >= 0) registers[r] = scratch + registers_[r].slot * slot_bytes_;
  }
  auto filled = [&](int reg) { return registers_[reg].first_only ? 1 : widest; };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TileBuffer& in = inputs_[i];
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
}

void PlannedProgram::run_product(std::byte* const* buffers, int64_t first,
                                 const NarrowProduct& product, std::byte* scratch) const {
  void* registers[kMaxRegisters];
  fill_registers(buffers, {}, scratch, 1, registers);
  auto place = [&](const TileBuffer& buffer, std::byte* base) {
    if (!buffer.uniform && !buffer.scalar) {
      registers[buffer.reg] = base + first * buffer.element_bytes;
    }
  };
  for (size_t i = 1; i < inputs_.size(); ++i) place(inputs_[i], buffers[i]);
  for (size_t o = 0; o < outputs_.size(); ++o) place(outputs_[o], buffers[inputs_.size() + o]);
  const TileStep& step = instructions_[0];
  step.product.run(arguments_of(step, registers), product);
}

void PlannedProgram::run(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
                         const RandomKey& random) const {
  void* registers[kMaxRegisters];
  fill_registers(buffers, block, scratch, std::min(kTile, block.rows * block.cols), registers);
  Walk walk;
  walk.buffers = buffers;
  walk.block = &block;
  walk.scratch = scratch;
  for (const TileStep& step : instructions_) {
    if (step.rounding) walk.random[step.rounding->number] = bits_of(*step.rounding, random);
  }
  const size_t dims = sizes_.size();
  const int64_t inner = sizes_[dims - 1];
  Position position{sizes_, {}};
  for (int64_t row = 0; row < block.rows; ++row) {
    int64_t linear = block.first + row * block.row_step;
    int64_t left = block.cols, col = 0;
    position.set(linear);
    while (left > 0) {
      const int64_t run = std::min(left, inner - position.index[dims - 1]);
      if (run >= kDirect && walk.count > 0) {
        run_tile(walk, registers);
        walk.clear();
      }
      const int s = walk.segments++;
      const bool whole = unbounded_ && run >= kDirect;
      const int64_t length = whole ? run : std::min(run, kTile - walk.count);
      walk.length[s] = length;
      walk.linear[s] = linear;
      walk.in_block[s] = row * block.source_step + col;
      std::copy_n(position.index, dims, walk.index[s]);
      walk.join_last();
      walk.count += length;
      linear += length, col += length, left -= length;
      position.advance(length);
      if (length >= kDirect || walk.count == kTile || walk.segments == kMaxSegments) {
        run_tile(walk, registers);
        walk.clear();
      }
    }
  }
  if (walk.count > 0) run_tile(walk, registers);
}

}  // namespace poptorch::emulator
