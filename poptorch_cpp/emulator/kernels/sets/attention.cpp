// Scaled dot-product attention. A task takes one head. Blocks of queries keep their scores in
// cache, and a causal mask skips the keys that a block cannot see.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/sets/attention_operands.hpp"
#include "emulator/kernels/sets/attention_weights.hpp"
#include "emulator/kernels/sets/parts.hpp"
#include "emulator/kernels/simd/lanes.hpp"
#include "emulator/kernels/simd/simd.hpp"

namespace poptorch::emulator::inline POPTORCH_SET {
namespace {

constexpr int64_t kQueries = 48;  // of a block
static_assert(kQueries % reference::kHalfPartials == 0);
constexpr int64_t kFewQueries = 4;  // that do not repay packing keys and values: decoding

struct Heads {
  int64_t heads, queries, keys, width, value_width;
  float scale;
  bool causal;
  // Strides of the mask over [batch, head, query, key]; mask_offsets has one offset per head.
  std::vector<int64_t> mask_offsets;
  int64_t mask_row = 0, mask_col = 0;
  TypedBuffer mask;
  bool masked = false;
  bool halves = false;  // partial sums are float16

  explicit Heads(const KernelRequest& request)
      : heads(request.inputs[0]->shape[0] * request.inputs[0]->shape[1]),
        queries(request.inputs[0]->shape[2]),
        keys(request.inputs[1]->shape[2]),
        width(request.inputs[0]->shape[3]),
        value_width(request.inputs[2]->shape[3]),
        scale(static_cast<float>(request.attr<double>("scale"))),
        causal(request.attr<bool>("causal")),
        mask(typed_input(request, 3)),
        masked(request.inputs[3].has_value()),
        halves(has_half_partials(request)) {
    if (!masked) return;
    const int64_t inner = request.inputs[0]->shape[1];
    const ir::Shape strides = broadcast_strides(
        request.inputs[3]->shape, {request.inputs[0]->shape[0], inner, queries, keys});
    for (int64_t h = 0; h < heads; ++h) {
      mask_offsets.push_back(h / inner * strides[0] + h % inner * strides[1]);
    }
    mask_row = strides[2];
    mask_col = strides[3];
  }
  // Returns the most keys that queries before `query` see.
  int64_t visible(int64_t query) const { return causal ? std::min(query, keys) : keys; }
  int64_t panels_of(int64_t n) const { return divide_up(n, kPanel); }

  // Converts the raw products of one query to masked, scaled scores; hidden keys get -inf.
  void finish_scores(const KernelArgs& args, int64_t head, int64_t query, float* s,
                     int64_t count) const {
    for (int64_t i = 0; i < count; ++i) s[i] *= scale;
    if (masked) add_mask(args, mask_offsets[head] + query * mask_row, s, count);
    for (int64_t i = visible(query + 1); i < count; ++i) s[i] = -INFINITY;
  }
  // Scales the products of a query and adds the mask, if there is one. Returns the factor that they
  // still need.
  float scale_left(const KernelArgs& args, int64_t head, int64_t query, float* s) const {
    if (!masked) return scale;
    finish_scores(args, head, query, s, visible(query + 1));
    return 1.0f;
  }
  void add_mask(const KernelArgs& args, int64_t first, float* s, int64_t count) const {
    constexpr int64_t kChunk = 64;
    float held[kChunk];
    for (int64_t i = 0; i < count; i += kChunk) {
      const int64_t n = std::min(kChunk, count - i), distinct = mask_col == 0 ? 1 : n;
      const float* added = mask.read(args, first + i * mask_col, distinct, held);
      for (int64_t j = 0; j < n; ++j) s[i + j] += added[j * mask_col];
    }
  }
  // Computes c = a · b or, if it accumulates, c += a · b. With half partials, the operand a is
  // rounded to float16 if the op computed it.
  void multiply(int64_t m, int64_t n, int64_t k, const MatrixView& a, const float* packed,
                int64_t panel_k, float* c, int64_t ldc, bool accumulate, float* packing) const {
    if (halves) {
      gemm_half_partials(m, n, k, a, packed, panel_k, c, ldc, accumulate, packing);
    } else {
      gemm_packed(m, n, k, a, packed, panel_k, nullptr, c, ldc, accumulate, packing);
    }
  }
  void round_operand(float* x, int64_t count) const {
    if (!halves) return;
    MicroArgs args;
    args.src[0] = args.dst[0] = x;
    kHalfConversions.narrow(args, count);
  }
  int64_t ns() const { return heads * queries * keys * (width + value_width) / 40; }
};

// Inputs are q, k, v and mask; outputs are o and logsumexp.
class Forward final : public BoundKernel {
 public:
  explicit Forward(const KernelRequest& request)
      : h_(request),
        q_(typed_input(request, 0)),
        k_(typed_input(request, 1)),
        v_(typed_input(request, 2)),
        o_(typed_output(request, 0)) {
    const int64_t K = h_.keys, d = h_.width, e = h_.value_width;
    const int64_t sizes[] = {is_few() ? 0 : packed_floats(d, K),
                             is_few() ? 0 : packed_floats(K, e),
                             kQueries * round_up(K, kScoresUnit),
                             q_.held_floats(kQueries * d),
                             o_.held_floats(kQueries * e),
                             is_few() ? 0 : k_.held_floats(K * d),
                             is_few() ? 0 : v_.held_floats(K * e),
                             multiplies_halves() ? gemm_scratch_floats(kQueries, d) : 0};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      offsets_[i] = floats_;
      floats_ += round_up(sizes[i], 16);
    }
  }
  int tasks(int) const override { return static_cast<int>(h_.heads); }
  int64_t scratch_bytes() const override { return 4 * floats_; }
  int64_t estimated_ns() const override { return h_.ns(); }
  void run(const KernelArgs& args, int, int task) const override {
    const int64_t head = task, L = h_.queries, K = h_.keys, d = h_.width, e = h_.value_width;
    const int64_t S = round_up(K, kScoresUnit);
    auto* base = reinterpret_cast<float*>(args.scratch);
    float *keys = base + offsets_[0], *values = base + offsets_[1], *scores = base + offsets_[2];
    float *held_q = base + offsets_[3], *held_o = base + offsets_[4];
    if (!is_few()) {
      const OperandView k =
          multiplies_halves()
              ? k_.view(args, head * K * d, 1, d)
              : OperandView(k_.read(args, head * K * d, K * d, base + offsets_[5]), 1, d);
      const float* v = v_.read(args, head * K * e, K * e, base + offsets_[6]);
      pack_panels(k, d, K, 0, h_.panels_of(K), keys, d);
      pack_panels({v, e, 1}, K, e, 0, h_.panels_of(e), values, K);
    }
    float* lse = buffer_of<float>(args, 5);
    for (int64_t i = 0; i < L; i += kQueries) {
      const int64_t rows = std::min(kQueries, L - i), seen = h_.visible(i + rows);
      const int64_t first_o = (head * L + i) * e;
      const MatrixView weights{scores, S, 1};
      if (multiplies_halves()) {
        gemm_packed(rows, seen, d, q_.view(args, (head * L + i) * d, d, 1), keys, d, nullptr,
                    scores, S, false, base + offsets_[7], Element::kBfloat);
      } else {
        const MatrixView queries{q_.read(args, (head * L + i) * d, rows * d, held_q), d, 1};
        if (is_few()) {
          const OperandView k = k_.view(args, head * K * d, 1, d);
          gemm_dots(rows, seen, d, queries, k, nullptr, scores, S);
        } else {
          h_.multiply(rows, seen, d, queries, keys, d, scores, S, false, nullptr);
        }
      }
      ScoreRows<kQueries> score(scores, S, rows);
      for (int64_t r = 0; r < rows; ++r) score.seen[r] = h_.visible(i + r + 1);
      score.weigh(seen, [&](int64_t r, float* s) { return h_.scale_left(args, head, i + r, s); });
      if (lse) score.log_sums(lse + head * L + i);
      for (int64_t r = 0; h_.halves && r < rows; ++r) h_.round_operand(scores + r * S, seen);
      float* o = o_.begin(args, first_o, held_o);
      if (is_few()) {
        const OperandView v = v_.view(args, head * K * e, e, 1);
        gemm_rows(rows, e, seen, weights, v, nullptr, o, e);
      } else {
        h_.multiply(rows, e, seen, weights, values, K, o, e, false, nullptr);
      }
      o_.write(args, first_o, rows * e, held_o);
    }
  }

 private:
  bool is_few() const { return h_.queries <= kFewQueries && !h_.halves; }
  // Returns whether queries and keys are multiplied as they are, which is faster where the host
  // multiplies matrices of bfloat16.
  bool multiplies_halves() const {
    return kernel_set().gemm.multiplies_matrices && !is_few() && !h_.halves &&
           q_.element() == Element::kBfloat && k_.element() == Element::kBfloat;
  }

  Heads h_;
  TypedBuffer q_, k_, v_, o_;
  int64_t offsets_[8], floats_ = 0;
};

// Inputs are q, k, v, mask, o, logsumexp and do; outputs are dq, dk and dv.
class Backward final : public BoundKernel {
 public:
  explicit Backward(const KernelRequest& request) : h_(request) {
    const int64_t L = h_.queries, K = h_.keys, d = h_.width, e = h_.value_width;
    for (int i = 0; i < kInputs; ++i) in_[i] = typed_input(request, i);
    for (int i = 0; i < 3; ++i) out_[i] = typed_output(request, i);
    const int64_t sizes[] = {packed_floats(d, K),
                             packed_floats(e, K),
                             packed_floats(K, d),
                             kQueries * K,
                             kQueries * K,
                             packed_floats(kQueries, d),
                             packed_floats(kQueries, e),
                             gemm_scratch_floats(K, kQueries),
                             in_[kQ].held_floats(L * d),
                             in_[kK].held_floats(K * d),
                             in_[kV].held_floats(K * e),
                             in_[kO].held_floats(L * e),
                             in_[kGrad].held_floats(L * e),
                             out_[0].held_floats(L * d),
                             out_[1].held_floats(K * d),
                             out_[2].held_floats(K * e)};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      offsets_[i] = floats_;
      floats_ += round_up(sizes[i], 16);
    }
  }
  int tasks(int) const override { return static_cast<int>(h_.heads); }
  int64_t scratch_bytes() const override { return 4 * floats_; }
  int64_t estimated_ns() const override { return h_.ns() * 5 / 2; }
  void run(const KernelArgs& args, int, int task) const override {
    const int64_t head = task, L = h_.queries, K = h_.keys, d = h_.width, e = h_.value_width;
    auto* base = reinterpret_cast<float*>(args.scratch);
    float *keys = base + offsets_[0], *values = base + offsets_[1],
          *rows_of_keys = base + offsets_[2];
    float *p = base + offsets_[3], *dp = base + offsets_[4];
    float *packed_q = base + offsets_[5], *packed_do = base + offsets_[6];
    float* packing = base + offsets_[7];
    auto read = [&](int i, int64_t count, int held) {
      return in_[i].read(args, head * count, count, base + offsets_[held]);
    };
    const float *q = read(kQ, L * d, 8), *k = read(kK, K * d, 9), *v = read(kV, K * e, 10),
                *o = read(kO, L * e, 11), *grad = read(kGrad, L * e, 12);
    const float* lse = input_of<float>(args, kLse) + head * L;
    auto begin = [&](int i, int64_t count, int held) {
      return out_[i].begin(args, head * count, base + offsets_[held]);
    };
    float *dq = begin(0, L * d, 13), *dk = begin(1, K * d, 14), *dv = begin(2, K * e, 15);
    pack_panels({k, 1, d}, d, K, 0, h_.panels_of(K), keys, d);
    pack_panels({v, 1, e}, e, K, 0, h_.panels_of(K), values, e);
    pack_panels({k, d, 1}, K, d, 0, h_.panels_of(d), rows_of_keys, K);
    std::fill_n(dk, K * d, 0.0f);
    std::fill_n(dv, K * e, 0.0f);
    for (int64_t i = 0; i < L; i += kQueries) {
      const int64_t rows = std::min(kQueries, L - i), seen = h_.visible(i + rows);
      h_.multiply(rows, seen, d, {q + i * d, d, 1}, keys, d, p, K, false, nullptr);
      h_.multiply(rows, seen, e, {grad + i * e, e, 1}, values, e, dp, K, false, nullptr);
      for (int64_t r = 0; r < rows; ++r) {
        float *s = p + r * K, *ds = dp + r * K;
        h_.finish_scores(args, head, i + r, s, seen);
        const float shift = lse[i + r];
        const float *g = grad + (i + r) * e, *out = o + (i + r) * e;
        const float delta = lanes::sum(e, [=](int64_t j) { return g[j] * out[j]; });
#pragma GCC ivdep
        for (int64_t j = 0; j < seen; ++j) {
          s[j] = vec::exp(s[j] - shift);
          ds[j] = s[j] * (ds[j] - delta) * h_.scale;
        }
        h_.round_operand(s, seen);
        h_.round_operand(ds, seen);
      }
      h_.multiply(rows, d, seen, {dp, K, 1}, rows_of_keys, K, dq + i * d, d, false, nullptr);
      pack_panels({q + i * d, d, 1}, rows, d, 0, h_.panels_of(d), packed_q, rows);
      pack_panels({grad + i * e, e, 1}, rows, e, 0, h_.panels_of(e), packed_do, rows);
      h_.multiply(seen, d, rows, {dp, 1, K}, packed_q, rows, dk, d, true, packing);
      h_.multiply(seen, e, rows, {p, 1, K}, packed_do, rows, dv, e, true, packing);
    }
    out_[0].write(args, head * L * d, L * d, dq);
    out_[1].write(args, head * K * d, K * d, dk);
    out_[2].write(args, head * K * e, K * e, dv);
  }

 private:
  enum Input { kQ, kK, kV, kMask, kO, kLse, kGrad, kInputs };

  Heads h_;
  TypedBuffer in_[kInputs], out_[3];
  int64_t offsets_[16], floats_ = 0;
};

template <typename Kernel>
std::unique_ptr<BoundKernel> bind(const KernelRequest& request) {
  for (const auto& type : request.inputs) {
    if (type && type->elements() == 0) return nullptr;
  }
  for (size_t i = 0; i < request.output_used.size() && request.outputs.size() == 3; ++i) {
    if (!request.output_used[i]) return nullptr;
  }
  return std::make_unique<Kernel>(request);
}

}  // namespace

void add_attention_kernels(KernelTable& table) {
  table.add({.op = "attention", .bind = bind_with_halves<bind<Forward>>, .reads_halves = true});
  table.add({.op = "attention_grad", .bind = bind_with_halves<bind<Backward>>});
}

}  // namespace poptorch::emulator::inline POPTORCH_SET
