// Declares PopTorch's own ops as torch.ops.poptorch. On the host they run the reference kernels,
// except print_tensor, which copies its operand. In a model the tracer has rows for them
// (aten/own.cpp).
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "frontends/torch/aten/own.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "ir/builder.hpp"
#include "ops/all_ops.hpp"
#include "reference/evaluate.hpp"

namespace poptorch::frontend {
namespace {

// Returns the results of one op of the IR. Throws UserError if the op does not take such operands.
std::vector<at::Tensor> on_host(const char* name, const std::vector<at::Tensor>& operands,
                                const ir::Attrs& attrs) {
  const at::AutoDispatchBelowAutograd below;
  ir::Module module(ops::registry());
  ir::Graph& graph = module.add_graph("main");
  std::vector<ir::Literal> held;
  std::vector<ir::Value*> values;
  for (const at::Tensor& operand : operands) {
    held.push_back(literal_of(operand.detach(), "an operand"));
    values.push_back(graph.add_input(held.back().type()));
  }
  std::vector<const ir::Literal*> literals;
  for (const ir::Literal& literal : held) literals.push_back(&literal);
  const ir::Op* op = ir::Builder(graph).emit(name, values, attrs);
  std::vector<at::Tensor> results;
  for (const ir::Literal& result : reference::evaluate(*op, literals)) {
    results.push_back(tensor_of(result));
  }
  return results;
}

at::Tensor as_indices(const at::Tensor& x) { return x.to(at::kInt); }

at::Tensor print_tensor(const at::Tensor& x, const std::string&, bool, int64_t, int64_t, int64_t,
                        int64_t, const std::string&, const std::string&, const std::string&,
                        const std::string&) {
  return x.clone();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> beam_search(const at::Tensor& probabilities,
                                                           const at::Tensor& lengths, int64_t blank,
                                                           int64_t beam_width, int64_t top_paths) {
  const auto found =
      on_host("ctc_beam_search", {probabilities, as_indices(lengths)},
              {{"blank", blank}, {"beam_width", beam_width}, {"top_paths", top_paths}});
  return {found[0], found[1], found[2]};
}

at::Tensor farthest_points(const at::Tensor& x, at::IntArrayRef borders, double ratio,
                           bool random_start) {
  const auto groups = std::max<int64_t>(std::ssize(borders) - 1, 0);
  at::Tensor start = at::zeros({groups}, at::kInt);
  for (int64_t g = 0; random_start && g < groups; ++g) {
    const int64_t size = borders[g + 1] - borders[g];
    const auto place = static_cast<int64_t>(at::rand({}).item<double>() * size);
    start[g] = std::min(place, std::max<int64_t>(size - 1, 0));
  }
  return on_host("farthest_points", {x, start},
                 {{"borders", borders.vec()}, {"counts", chosen_counts(borders.vec(), ratio)}})[0];
}

at::Tensor nearest_points(const at::Tensor& x, const at::Tensor& y,
                          const std::optional<at::Tensor>& batch_x,
                          const std::optional<at::Tensor>& batch_y) {
  const auto dtype = at::result_type(x, y);
  std::vector<at::Tensor> operands = {x.to(dtype), y.to(dtype)};
  for (const auto& batch : {batch_x, batch_y}) {
    if (batch) operands.push_back(as_indices(*batch));
  }
  return on_host("nearest_points", operands, {})[0];
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(poptorch, m) {
  m.def(
      "print_tensor(Tensor x, str title, bool print_gradient, int summarise_threshold, "
      "int edge_items, int max_line_width, int digits, str float_format, str separator, "
      "str open_bracket, str close_bracket) -> Tensor",
      print_tensor);
  m.def(
      "ctc_beam_search(Tensor probabilities, Tensor lengths, int blank, int beam_width, "
      "int top_paths) -> (Tensor, Tensor, Tensor)",
      beam_search);
  m.def("farthest_points(Tensor x, int[] borders, float ratio, bool random_start) -> Tensor",
        farthest_points);
  m.def("nearest_points(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y) -> Tensor",
        nearest_points);
}

}  // namespace poptorch::frontend
