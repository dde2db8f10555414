// Divides blocks into tiles: runs that are gathered, rows whose inputs repeat, or a product.
#include <algorithm>

#include "emulator/kernels/tile/tile_walk.hpp"

namespace poptorch::emulator {

namespace {

// Lets a step draw the random bits of elements that are numbered from `first` on.
void number(MicroArgs& args, const RandomRounding& rounding, const RandomKey& random,
            int64_t first) {
  const reference::RoundingBits bits = bits_of(rounding, random);
  args.index = static_cast<uint32_t>(first), args.index_step = 1;
  args.key[0] = bits.first(static_cast<uint64_t>(first));
  args.key[1] = bits.second();
}

}  // namespace

reference::RoundingBits bits_of(const RandomRounding& rounding, RandomKey key) {
  key.op_id = rounding.op_id;
  if (rounding.same_in_replicas) key.replica = 0;
  return reference::RoundingBits(key, rounding.stream);
}

void PlannedProgram::fill(int reg, const void* element, void* slot, int64_t count) const {
  TileBuffer scalar{.dtype = registers_[reg].dtype,
                    .strides = {},
                    .element_bytes = 0,
                    .register_bytes = register_bytes(register_class(registers_[reg].dtype)),
                    .move = load_fn(registers_[reg].dtype)};
  move_segment(scalar, static_cast<std::byte*>(const_cast<void*>(element)), 0, slot, count, true);
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
                                 const NarrowProduct& product, std::byte* scratch,
                                 const RandomKey& random) const {
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
  MicroArgs args = arguments_of(step, registers);
  if (step.rounding) number(args, *step.rounding, random, first);
  step.product.run(args, product);
}

// Returns the elements after which the inputs of a block repeat; 0: run_rows() does not serve it.
int64_t PlannedProgram::period_of(const TileBlock& block, bool contiguous) const {
  if (row_ == 0) return 0;
  const int64_t begin = block.first % row_;
  const bool whole = contiguous && begin == 0;
  const bool parts = begin + block.cols <= row_ && block.row_step % row_ == 0;
  const int64_t period = whole ? row_ : parts ? block.cols : 0;
  return period <= tile_ / 2 ? period : 0;
}

// Loads the inputs that repeat, for `count` elements from the block's first on.
void PlannedProgram::fill_rows(const Walk& walk, int64_t period, int64_t count,
                               void** registers) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TileBuffer& in = inputs_[i];
    if (!in.row) continue;
    auto* slot = walk.scratch + registers_[in.reg].slot * slot_bytes_;
    registers[in.reg] = slot;
    std::byte* from = walk.buffers[i] + walk.block->first % row_ * in.element_bytes;
    for (int64_t done = 0; done < count; done += period) {
      move_segment(in, from, 1, slot + done * in.register_bytes, std::min(period, count - done),
                   true);
    }
  }
}

void PlannedProgram::run_rows(Walk& walk, int64_t period, bool contiguous, void** registers) const {
  const TileBlock& block = *walk.block;
  const int64_t all = block.rows * block.cols;
  const int64_t rows = std::min<int64_t>(tile_ / period, kMaxSegments);
  fill_rows(walk, period, std::min(rows * period, all), registers);
  walk.rows_loaded = true;
  walk.whole_rows = contiguous;
  walk.together = contiguous;
  walk.source_together = contiguous;
  for (int64_t at = 0; at < all; at += rows * period) {
    walk.count = std::min(rows * period, all - at);
    const int64_t length = contiguous ? walk.count : period;
    walk.segments = static_cast<int>(walk.count / length);
    for (int s = 0; s < walk.segments; ++s) {
      const int64_t row = contiguous ? 0 : at / period + s;
      walk.length[s] = length;
      walk.linear[s] = block.first + (contiguous ? at : row * block.row_step);
      walk.in_block[s] = contiguous ? at : row * block.source_step;
      walk.index[s][0] = walk.linear[s] / row_;
      walk.index[s][1] = walk.linear[s] % row_;
    }
    run_tile(walk, registers);
  }
}

// Runs the rest of the row in which a run begins, and then the whole rows.
void PlannedProgram::run_from_whole_row(std::byte* const* buffers, const TileBlock& block,
                                        std::byte* scratch, const RandomKey& random) const {
  TileBlock head = block, rest = block;
  head.cols = row_ - block.first % row_;
  rest.first += head.cols;
  rest.cols -= head.cols;
  if (rest.source) rest.source += head.cols * inputs_[0].element_bytes;
  run(buffers, head, scratch, random);
  run(buffers, rest, scratch, random);
}

struct PlannedProgram::RowSteps {
  int64_t source[kMaxSources] = {}, result[kMaxResults] = {};  // bytes

  void advance(MicroArgs& args, const TileStep& step) const {
    for (size_t k = 0; k < step.sources.size(); ++k) {
      args.src[k] = args.in<std::byte>(k) + source[k];
    }
    for (size_t k = 0; k < step.results.size(); ++k) {
      args.dst[k] = args.out<std::byte>(k) + result[k];
    }
  }
};

PlannedProgram::RowSteps PlannedProgram::row_steps() const {
  const TileStep& step = instructions_[0];
  RowSteps steps;
  auto to_next_row = [&](const TileBuffer& buffer) {
    const size_t dims = sizes_.size();
    return dims > 1 ? buffer.strides[dims - 2] * buffer.element_bytes : 0;
  };
  for (const TileBuffer& in : inputs_) {
    const int64_t held = in.uniform ? 0 : in.register_bytes;
    for (size_t k = 0; k < step.sources.size(); ++k) {
      if (step.sources[k] == in.reg) steps.source[k] = in.direct ? to_next_row(in) : held;
    }
  }
  for (const TileBuffer& out : outputs_) {
    for (size_t k = 0; k < step.results.size(); ++k) {
      if (step.results[k] == out.reg) steps.result[k] = to_next_row(out);
    }
  }
  return steps;
}

void PlannedProgram::run_in_place(std::byte* const* buffers, const TileBlock& block,
                                  const RandomKey& random, void** registers) const {
  const TileStep& step = instructions_[0];
  MicroArgs args = arguments_of(step, registers);
  if (step.rounding) number(args, *step.rounding, random, block.first);
  const size_t dims = sizes_.size();
  Position position{sizes_, {}};
  position.set(block.first);
  auto at = [&](const TileBuffer& buffer, size_t number) {
    return buffers[number] + offset_of(buffer, position.index, dims) * buffer.element_bytes;
  };
  // Elements of half types that serve a row each, which the step takes as floats.
  constexpr int64_t kTogether = 64;
  alignas(64) std::byte words[kMaxSources][kTogether * 8];
  const RowSteps steps = row_steps();
  const int64_t inner = sizes_.back();
  for (int64_t left = block.cols; left > 0;) {
    const bool begins = dims > 1 && position.index[dims - 1] == 0 && left >= inner;
    const int64_t around = begins ? sizes_[dims - 2] - position.index[dims - 2] : 1;
    const int64_t rows = begins ? std::min({left / inner, around, kTogether}) : 1;
    const int64_t run = begins ? inner : std::min(left, inner - position.index[dims - 1]);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TileBuffer& in = inputs_[i];
      if (in.uniform) continue;
      registers[in.reg] = in.direct ? at(in, i) : words[i];
      if (in.direct) continue;
      move_segment(in, at(in, i), dims > 1 ? in.strides[dims - 2] : 0, words[i], rows, true);
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      registers[outputs_[o].reg] = at(outputs_[o], inputs_.size() + o);
    }
    for (size_t k = 0; k < step.sources.size(); ++k) {
      if (step.sources[k] >= 0) args.src[k] = registers[step.sources[k]];
    }
    for (size_t k = 0; k < step.results.size(); ++k) args.dst[k] = registers[step.results[k]];
    for (int64_t r = 0; r < rows; ++r) {
      step.fn(args, run);
      args.index += static_cast<uint32_t>(run);
      steps.advance(args, step);
    }
    left -= rows * run;
    rows > 1 ? position.advance(dims - 2, rows) : position.advance(run);
  }
}

void PlannedProgram::begin(Walk& walk, std::byte* const* buffers, const TileBlock& block,
                           std::byte* scratch, const RandomKey& random) const {
  walk.buffers = buffers;
  walk.block = &block;
  walk.scratch = scratch;
  for (const TileStep& step : instructions_) {
    if (step.rounding) walk.random[step.rounding->number] = bits_of(*step.rounding, random);
  }
}

void PlannedProgram::run(std::byte* const* buffers, const TileBlock& block, std::byte* scratch,
                         const RandomKey& random) const {
  if (row_ > 0 && block.rows == 1 && block.first % row_ != 0 && block.cols > row_) {
    return run_from_whole_row(buffers, block, scratch, random);
  }
  if (ends_columns() && run_as_ending(buffers, block, random)) return;
  void* registers[kMaxRegisters];
  fill_registers(buffers, block, scratch, std::min(tile_, block.rows * block.cols), registers);
  if (runs_in_place_ && block.rows == 1 && !block.source) {
    return run_in_place(buffers, block, random, registers);
  }
  Walk walk;
  begin(walk, buffers, block, scratch, random);
  const bool contiguous = block.rows == 1 || (block.row_step == block.cols &&
                                              (!block.source || block.source_step == block.cols));
  if (const int64_t period = period_of(block, contiguous)) {
    return run_rows(walk, period, contiguous, registers);
  }
  const size_t dims = sizes_.size();
  const int64_t inner = sizes_[dims - 1];
  Position position{sizes_, {}};
  auto run_gathered = [&] {
    run_tile(walk, registers);
    walk.clear();
  };
  for (int64_t row = 0; row < block.rows; ++row) {
    int64_t linear = block.first + row * block.row_step;
    int64_t left = block.cols, col = 0;
    position.set(linear);
    while (left > 0) {
      const int64_t in_block = row * block.source_step + col;
      const bool gathers = !one_run_ && inner < least_run_;
      const int64_t rows = gathers ? walk.add_rows(position, linear, in_block, left, tile_) : 0;
      if (rows > 0) {
        linear += rows * inner, col += rows * inner, left -= rows * inner;
        if (left == 0 || tile_ - walk.count < inner || walk.segments == kMaxSegments)
          run_gathered();
        continue;
      }
      const int64_t run = std::min(left, inner - position.index[dims - 1]);
      if (run >= least_run_ && walk.count > 0) run_gathered();
      const int s = walk.segments++;
      const bool whole = unbounded_ && run >= least_run_;
      const int64_t length = whole ? run : std::min(run, tile_ - walk.count);
      walk.length[s] = length;
      walk.linear[s] = linear;
      walk.in_block[s] = in_block;
      walk.index[s] = position.index;
      walk.join_last();
      walk.count += length;
      linear += length, col += length, left -= length;
      position.advance(length);
      const bool full = walk.count == tile_ || walk.segments == kMaxSegments;
      if (one_run_ || length >= least_run_ || full) run_gathered();
    }
  }
  if (walk.count > 0) run_tile(walk, registers);
}

}  // namespace poptorch::emulator
