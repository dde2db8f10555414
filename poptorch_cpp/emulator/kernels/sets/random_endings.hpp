// Applies endings on halves (base/ending.hpp) that round at random.
#pragma once

#include "emulator/kernels/base/ending.hpp"
#include "emulator/kernels/sets/random_words.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {

// Ends rows of sums, which are `step` floats apart.
template <Element element>
class RandomEnder {
 public:
  explicit RandomEnder(const HalfEnding& ending)
      : e_(ending),
        chains_(ending.scale || ending.added || ending.low > -INFINITY || ending.high < INFINITY) {}

  void end(const float* sums, int64_t step, int64_t rows, int64_t columns) const {
    const int64_t image = e_.rounding.image;
    if (image == 1 && !chains_ && rows <= kFewRows && columns >= 4 * kRounded) {
      return round_long_rows(sums, step, rows, columns);
    }
    for (int64_t i = 0, count; i < rows; i += count) {
      count = std::min(rows - i, RowWords::kRows);
      if (image > 1) count = std::min(count, image - (e_.rounding.row + i) % image);
      for (int64_t j = 0; j < columns; j += kRounded) {
        const int64_t width = std::min<int64_t>(columns - j, kRounded);
        block(e_.from(i, j), sums + i * step + j, step, count, width);
      }
    }
  }

 private:
  using E = Elements<element>;
  using To = std::conditional_t<element == Element::kHalf, ToHalf, ToBfloat>;

  static constexpr int64_t kFewRows = 4;

  // Finds hashes along each row: RowWords finds those of kLanes rows, most of which are not here.
  void round_long_rows(const float* sums, int64_t step, int64_t rows, int64_t columns) const {
    const uint32_t* key = e_.rounding.keys[EndingRounding::kSum];
    for (int64_t i = 0; i < rows; ++i) {
      round_elements<To>(sums + i * step, e_.to + i * e_.row_step, columns,
                         e_.rounding.number(i, 0, e_.row_step), key);
    }
  }

  // Rows of floats. Columns up to `step`, a multiple of kLanes, are zero.
  struct Held {
    alignas(64) float x[RowWords::kRows * kRounded];
    int64_t rows, columns, step;

    // Two rows of narrow blocks are rounded together.
    void take(const float* sums, int64_t sums_step, bool narrow) {
      step = narrow ? kLanes : kRounded;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t k = 0; k < step; k += kLanes) {
          store(x + i * step + k, first_of(sums + i * sums_step + k, columns - k));
        }
      }
      if (narrow && rows % 2 != 0) store(x + rows * step, Widest{});
    }
    bool is_narrow() const { return step < kRounded; }
  };
  [[gnu::always_inline]] static Widest first_of(const float* x, int64_t count) {
    if (count >= kLanes) return load<Widest>(x);
    return count > 0 ? load(x, first_lanes(count)) : Widest{};
  }

  // Rounds rows of kRounded elements.
  template <typename Y>
  static void round(EndingRounding::Part part, const HalfEnding& e, const float* x, int64_t x_step,
                    Y* y, int64_t y_step, int64_t rows) {
    const EndingRounding& r = e.rounding;
    const uint32_t first = r.number(0, 0, e.row_step);
    if (r.image == 1) {
      const RowWords words(first, static_cast<uint32_t>(e.row_step), rows, r.keys[part]);
#pragma GCC unroll 1
      for (int64_t i = 0; i < rows; ++i) {
        round_by_words<To>(x + i * x_step, y + i * y_step, words.row(i));
      }
      return;
    }
    ColumnWords words(first, static_cast<uint32_t>(r.image), r.keys[part]);
#pragma GCC unroll 1
    for (int64_t i = 0; i < rows; i += 2) {
      WidestWords row, row_after;
      words.next(row, row_after);
      round_by_words<To>(x + i * x_step, y + i * y_step, row);
      if (i + 1 == rows) break;
      round_by_words<To>(x + (i + 1) * x_step, y + (i + 1) * y_step, row_after);
    }
  }
  static void round(EndingRounding::Part part, const HalfEnding& e, Held& held) {
    if (!held.is_narrow()) return round(part, e, held.x, held.step, held.x, held.step, held.rows);
    const EndingRounding& r = e.rounding;
    ColumnWords words(r.number(0, 0, e.row_step), static_cast<uint32_t>(r.image), r.keys[part]);
#pragma GCC unroll 1
    for (int64_t i = 0; i < held.rows; i += 2) {
      float* x = held.x + i * held.step;
      round_by_words<To>(x, x, words.next_of_first());
    }
  }

  // Ends a block of at most kRounded columns.
  void block(const HalfEnding& e, const float* sums, int64_t step, int64_t rows,
             int64_t columns) const {
    using Part = EndingRounding::Part;
    const bool whole = columns == kRounded;
    if (whole && !chains_) return round(Part::kSum, e, sums, step, e.to, e.row_step, rows);
    Held held;
    held.rows = rows, held.columns = columns;
    if (whole) {
      held.step = kRounded;
      round(Part::kSum, e, sums, step, held.x, kRounded, rows);
    } else {
      held.take(sums, step, e.rounding.image > 1 && columns <= kLanes);
      round(Part::kSum, e, held);
    }
    if (e.scale) {
      scale(e, held);
      round(Part::kScaled, e, held);
    }
    if (e.added) {
      add(e, held);
      round(Part::kAdded, e, held);
    }
    limit(e, held);
  }
  static void scale(const HalfEnding& e, Held& held) {
    for (int64_t k = 0; k < held.step; k += kLanes) {
      const Widest by = first_of(e.scale + k, held.columns - k);
      const Widest shift = first_of(e.shift + k, held.columns - k);
      for (int64_t i = 0; i < held.rows; ++i) {
        float* x = held.x + i * held.step + k;
        store(x, fmadd(load<Widest>(x), by, shift));
      }
    }
  }
  static void add(const HalfEnding& e, Held& held) {
    for (int64_t i = 0; i < held.rows; ++i) {
      float added[kRounded] = {};
      to_floats_of<element>(e.added + i * e.row_step, added, held.columns);
      float* x = held.x + i * held.step;
      for (int64_t k = 0; k < held.step; k += kLanes) {
        store(x + k, load<Widest>(x + k) + load<Widest>(added + k));
      }
    }
  }
  static void limit(const HalfEnding& e, const Held& held) {
    const Widest least = spread<Widest>(e.low), most = spread<Widest>(e.high);
    for (int64_t i = 0; i < held.rows; ++i) {
      for (int64_t k = 0; k < held.columns; k += kLanes) {
        Widest x = load<Widest>(held.x + i * held.step + k);
        x = x < least ? least : x;
        x = x > most ? most : x;
        uint16_t* to = e.to + i * e.row_step + k;
        const int64_t count = held.columns - k;
        if (count >= kLanes) {
          E::store_all(to, x);
          continue;
        }
        uint16_t last[kLanes];
        E::store_all(last, x);
        std::copy_n(last, count, to);
      }
    }
  }

  const HalfEnding e_;
  const bool chains_;
};

template <Element element>
void end_at_random(const HalfEnding& e, const float* sums, int64_t step, int64_t rows,
                   int64_t columns) {
  RandomEnder<element>(e).end(sums, step, rows, columns);
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
