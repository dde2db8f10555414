// Transposing matrices of elements of any size.
#include <gtest/gtest.h>

#include <vector>

#include "emulator/kernels/base/transpose_block.hpp"

namespace poptorch::emulator {
namespace {

// Rows of both matrices are longer than the part that is transposed; the rest must remain.
template <typename T>
void expect_transposed(int64_t rows, int64_t cols) {
  const int64_t from_stride = cols + 3, to_stride = rows + 5;
  const T untouched = 77;
  std::vector<T> from(rows * from_stride), to(cols * to_stride, untouched);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 7 + i / 251);
  transpose_matrix(from.data(), from_stride, to.data(), to_stride, rows, cols);
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < to_stride; ++r) {
      ASSERT_EQ(to[c * to_stride + r], r < rows ? from[r * from_stride + c] : untouched)
          << sizeof(T) << " bytes, " << rows << " x " << cols << ": row " << r << ", column " << c;
    }
  }
}

TEST(Transpose, MovesEveryElementOfAnyMatrix) {
  constexpr int64_t kLengths[] = {0, 1, 3, 4, 8, 15, 16, 17, 33, 63, 64, 67, 130, 300};
  for (int64_t rows : kLengths) {
    for (int64_t cols : kLengths) {
      expect_transposed<uint8_t>(rows, cols);
      expect_transposed<uint16_t>(rows, cols);
      expect_transposed<uint32_t>(rows, cols);
      expect_transposed<uint64_t>(rows, cols);
    }
  }
}

}  // namespace
}  // namespace poptorch::emulator
