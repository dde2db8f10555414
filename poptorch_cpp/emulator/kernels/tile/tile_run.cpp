// Runs tile programs. A tile is up to kMostTile elements, gathered from at most kMaxSegments runs
// that are contiguous in the space's innermost dimension.
#include <algorithm>
#include <cstring>

#include "emulator/kernels/base/element_word.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/tile/tile_walk.hpp"

namespace poptorch::emulator {
namespace {

// Writes each of `rows` words n times.
template <typename Word>
void repeat(const void* words, int64_t rows, int64_t n, void* tile) {
  typedef Word Vector __attribute__((vector_size(16)));
  constexpr int64_t kWords = 16 / sizeof(Word);
  const Word* from = static_cast<const Word*>(words);
  Word* to = static_cast<Word*>(tile);
  // A vector may reach into the next rows, which are written later.
  int64_t r = 0;
  for (; (r * n + round_up(n, kWords)) <= rows * n; ++r) {
    const Vector same = Vector{} + from[r];
    for (int64_t i = 0; i < n; i += kWords) std::memcpy(to + r * n + i, &same, sizeof(same));
  }
  for (; r < rows; ++r) std::fill_n(to + r * n, n, from[r]);
}

template <typename Word>
void gather(const std::byte* memory, int64_t stride, void* tile, int64_t n) {
  const Word* from = reinterpret_cast<const Word*>(memory);
  Word* to = static_cast<Word*>(tile);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

// Writes a few words. at(i, word) returns word i, and at(i, vector) those from i on. The last
// vector may overlap the one before it.
template <typename Word, typename At>
void write_few(Word* to, int64_t n, At at) {
  typedef Word Vector __attribute__((vector_size(16)));
  constexpr int64_t kWords = 16 / sizeof(Word);
  if (n < kWords) {
    for (int64_t i = 0; i < n; ++i) to[i] = at(i, Word());
    return;
  }
  auto write = [&](int64_t i) {
    const Vector some = at(i, Vector());
    std::memcpy(to + i, &some, sizeof(some));
  };
  for (int64_t i = 0; i + kWords <= n; i += kWords) write(i);
  write(n - kWords);
}

// Loads the words of a segment as they are.
template <typename Word>
void load_few(const Word* from, int64_t stride, Word* to, int64_t n) {
  if (stride > 1) return gather<Word>(reinterpret_cast<const std::byte*>(from), stride, to, n);
  if (stride == 0) {
    return write_few(to, n, [=]<typename T>(int64_t, T) { return T{} + *from; });
  }
  write_few(to, n, [=]<typename T>(int64_t i, T some) {
    std::memcpy(&some, from + i, sizeof(some));
    return some;
  });
}

}  // namespace

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
  if (load && stride != 0 && buffer.direct) {
    return with_word(reg_bytes, [&]<typename T>(T) { gather<T>(memory, stride, tile, n); });
  }
  for (int64_t i = 0; i < n; ++i) {
    std::byte* element = memory + i * stride * buffer.element_bytes;
    std::byte* held = static_cast<std::byte*>(tile) + i * reg_bytes;
    args.src[0] = load ? element : held;
    args.dst[0] = load ? held : element;
    buffer.move(args, 1);
    if (load && stride == 0) {
      with_word(reg_bytes, [&]<typename T>(T) {
        std::fill_n(static_cast<T*>(tile), n, *static_cast<T*>(tile));
      });
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
  args.held = &step.held;
  return args;
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

void PlannedProgram::load_column(const Walk& walk, const TileBuffer& in, std::byte* base,
                                 void* slot) const {
  const int64_t rows = divide_up(walk.count, row_);
  alignas(64) std::byte words[kMostTile * 8];
  move_segment(in, base + walk.linear[0] / row_ * in.element_bytes, 1, words, rows, true);
  with_word(in.register_bytes, [&]<typename T>(T) { repeat<T>(words, rows, row_, slot); });
}

void PlannedProgram::load_segments(const Walk& walk, const TileBuffer& in, std::byte* base,
                                   void* slot) const {
  const size_t dims = sizes_.size();
  const int64_t inner = in.strides.back(), outer = dims > 1 ? in.strides[dims - 2] : 0;
  with_word(in.element_bytes, [&]<typename Word>(Word) {
    Word* to = static_cast<Word*>(slot);
    for (int s = 0; s < walk.segments;) {
      const auto* from = reinterpret_cast<const Word*>(address(walk, in, base, s));
      const int rows = dims > 1 ? walk.rows_from(s, dims) : 1;
      const int64_t n = walk.length[s];
      if (rows > 1 && inner == 0) {
        Word words[kMaxSegments];
        gather<Word>(reinterpret_cast<const std::byte*>(from), outer, words, rows);
        repeat<Word>(words, rows, n, to);
      } else {
        for (int r = 0; r < rows; ++r) load_few(from + r * outer, inner, to + r * n, n);
      }
      to += rows * n;
      s += rows;
    }
  });
}

void PlannedProgram::load_inputs(Walk& walk, void** registers) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TileBuffer& in = inputs_[i];
    if (in.uniform || in.reg < 0 || (in.row && walk.rows_loaded)) continue;
    const bool own = i == 0 && walk.block->source != nullptr;
    const int64_t stride = own ? 1 : in.strides.back();
    const bool one_run = own ? walk.source_together : is_one_run(walk, in);
    std::byte* slot = walk.scratch + registers_[in.reg].slot * slot_bytes_;
    registers[in.reg] = slot;
    if (in.column && !own && walk.whole_rows) {
      load_column(walk, in, walk.buffers[i], slot);
      continue;
    }
    if (in.column && !own) {
      std::byte* element = address(walk, in, walk.buffers[i], 0);
      if (walk.is_filled(i, element)) continue;
      if (registers_[in.reg].first_only) {
        move_segment(in, element, 0, slot, 1, true);
        continue;
      }
    }
    if (in.direct && !one_run && !own) {
      load_segments(walk, in, walk.buffers[i], slot);
      continue;
    }
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

void PlannedProgram::run_tile(Walk& walk, void** registers) const {
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

int64_t PlannedProgram::bytes_between(int reg) const {
  const Register& r = registers_[reg];
  if (r.hyper_parameter || r.first_only) return 0;
  return r.as_stored ? ir::size_of(r.dtype) : register_bytes(register_class(r.dtype));
}

void PlannedProgram::run_part(const TileStep& step, int64_t count, MicroArgs& args) const {
  step.fn(args, count);
  for (size_t k = 0; k < step.sources.size(); ++k) {
    if (step.sources[k] < 0) continue;
    args.src[k] = args.in<std::byte>(k) + count * bytes_between(step.sources[k]);
  }
  for (size_t k = 0; k < step.results.size(); ++k) {
    args.dst[k] = args.out<std::byte>(k) + count * bytes_between(step.results[k]);
  }
}

// Each element draws the bits of its number. Where the upper half of the number changes, so does
// the key.
void PlannedProgram::run_at_random(const Walk& walk, const TileStep& step, void** registers) const {
  const reference::RoundingBits& bits = walk.random[step.rounding->number];
  MicroArgs args = arguments_of(step, registers);
  args.key[1] = bits.second();
  if (!numbers_.strides.empty()) {
    const size_t dims = sizes_.size();
    const bool neighbours = dims > 1 && numbers_.strides[dims - 2] == 1;
    for (int s = 0, rows; s < walk.segments; s += rows) {
      rows = neighbours ? walk.rows_from(s, dims) : 1;
      const int64_t first = offset_of(numbers_, walk.index[s], dims);
      run_numbered(step, bits, first, walk.length[s], rows, args);
    }
    return;
  }
  args.index_step = 1;
  for (int s = 0; s < walk.segments;) {
    int64_t at = walk.linear[s], end = at + walk.length[s];
    for (++s; s < walk.segments && walk.linear[s] == end; ++s) end += walk.length[s];
    while (at < end) {
      const int64_t count = std::min(end, (at / kSameKey + 1) * kSameKey) - at;
      args.index = static_cast<uint32_t>(at);
      args.key[0] = bits.first(static_cast<uint64_t>(at));
      run_part(step, count, args);
      at += count;
    }
  }
}

void PlannedProgram::run_numbered(const TileStep& step, const reference::RoundingBits& bits,
                                  int64_t first, int64_t count, int64_t rows,
                                  MicroArgs& args) const {
  static_assert(kMostTile <= kMostInRows);
  const int64_t stride = numbers_.strides.back(), last = first + (count - 1) * stride + rows - 1;
  const bool together = step.takes_index_step && first / kSameKey == last / kSameKey;
  if (rows > 1 && !together) {
    for (int64_t r = 0; r < rows; ++r) run_numbered(step, bits, first + r, count, 1, args);
    return;
  }
  const int64_t part = together ? count * rows : 1;
  args.index_step = static_cast<uint32_t>(stride);
  args.row = rows > 1 ? count : 0;
  for (int64_t i = 0; i < count * rows; i += part) {
    const int64_t at = first + i * stride;
    args.index = static_cast<uint32_t>(at);
    args.key[0] = bits.first(static_cast<uint64_t>(at));
    run_part(step, part, args);
  }
}

}  // namespace poptorch::emulator
