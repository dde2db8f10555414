// Operations for use inside a model. All of them also work on the host, with torch's autograd.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace poptorch {

using Tensors = std::vector<torch::Tensor>;

// What host transfers may overlap with.
enum class OverlapMode { NoOverlap, OverlapAccumulationLoop, OverlapDeviceIterationLoop };

// Which dimension of a matrix product is split.
enum class MatMulSerializationMode { InputChannels, ReducingDim, OutputChannels, Disabled };

// True while the model is traced for the IPU, false on the host.
bool isRunningOnIpu();

// While it lives, names of ops begin with `name`, as with a module's path.
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
};

// While it lives, ops carry the pair, as with Python's poptorch.Attribute: an inner one's comes
// before an outer one's of the same key. It changes no values; graph() shows it.
class Attribute {
 public:
  Attribute(const std::string& key, const std::string& text);
  ~Attribute();
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;

 private:
  std::map<std::string, std::string> outer_;
};

// Marks a value as the loss: back-propagation starts here with a gradient of ones. `reduction`:
// "sum" or "mean" over all elements, or "none", which leaves `x` as it is.
torch::Tensor identity_loss(const torch::Tensor& x, const std::string& reduction);

// How a tensor is printed: of more elements than the threshold (0: none) those at both ends of each
// dimension; rows broken behind separators (0: never); digits of a number in all (0: unaligned);
// "auto", "fixed", "scientific" or "none".
struct PrintFormat {
  int64_t summarise_threshold = 1000, edge_items = 3, max_line_width = 80, digits = 4;
  std::string float_format = "auto", separator = ", ", open_bracket = "(", close_bracket = ")";
};
// The tensor itself, printed on stderr whenever the device comes here; its gradient under
// "<title>_gradient". On the host nothing is printed.
torch::Tensor ipu_print_tensor(const torch::Tensor& tensor, const std::string& title = "",
                               bool print_gradient = true, const PrintFormat& format = {});

// Prefix beam search in log probabilities [time, batch, classes] for int lengths [batch]: log
// probabilities [batch, top_paths], lengths [batch, top_paths] and paths [batch, top_paths, time]
// with the blank behind them, best first.
Tensors ctc_beam_search_decoder(const torch::Tensor& probs, const torch::Tensor& lengths,
                                int64_t blank = 0, int64_t beam_width = 100, int64_t top_paths = 1);

// Indices of points [points, dimensions] that lie far apart: of each group, whose borders are
// `ptr`, the `ratio`, from its first point on or from one at random.
torch::Tensor fps(const torch::Tensor& src, const std::vector<int64_t>& ptr, double ratio = 0.5,
                  bool random_start = false);
// For each point of x the index of the nearest of y, of the same batch where batches are given for
// both.
torch::Tensor nearest(const torch::Tensor& x, const torch::Tensor& y,
                      const std::optional<torch::Tensor>& batch_x = std::nullopt,
                      const std::optional<torch::Tensor>& batch_y = std::nullopt);

// Whether the convolutions of a MultiConv run together.
enum class MultiConvPlanType { Parallel, Serial };

// The convolutions that a body makes are one op of the device, which changes no values: they may
// not need each other's results. The settings are advice for hardware, one for all convolutions or
// one for each, but for the plan: in parallel, which is the default, they run in one launch.
//   poptorch::MultiConv().cycleBackOff(0.3)([&] { a = first(x), b = second(x); });
class MultiConv {
 public:
  MultiConv() = default;
  MultiConv& availableMemoryProportions(const std::vector<double>& value);
  MultiConv& partialsTypes(const std::vector<torch::Dtype>& value);  // kFloat and kHalf
  MultiConv& planType(MultiConvPlanType value);
  MultiConv& perConvReservedTiles(int64_t value);
  MultiConv& cycleBackOff(double value);
  MultiConv& enableConvDithering(const std::vector<bool>& value);
  // On the host just the body.
  void operator()(const std::function<void()>& body) const;

 private:
  MultiConv& set(const std::string& name, std::vector<std::string> values);
  bool serial_ = false;
  std::map<std::string, std::vector<std::string>> values_;
};

// The tensor itself, as a value of its own.
torch::Tensor nop(const torch::Tensor& tensor);

// The tensors themselves, marked as those that a recomputation keeps.
torch::Tensor recomputationCheckpoint(const torch::Tensor& tensor);
Tensors recomputationCheckpoint(const Tensors& tensors);

// The tensor itself; the proportion (0 to 1) of tile memory is advice for hardware.
torch::Tensor set_available_memory(const torch::Tensor& tensor, double proportion);

// Inputs of forward that no other op uses, or tensors to be returned: their transfers overlap with
// the computation of another round of the loop that `mode` names. At compilation refused without
// I/O tiles and with PipelinedExecution; outputs want OutputMode All or Sum.
torch::Tensor set_overlap_for_input(const torch::Tensor& input, OverlapMode mode);
Tensors set_overlap_for_input(const Tensors& inputs, OverlapMode mode);
torch::Tensor set_overlap_for_output(const torch::Tensor& output, OverlapMode mode);
Tensors set_overlap_for_output(const Tensors& outputs, OverlapMode mode);

// lhs [..., a, b] times rhs [..., b, c]; on hardware in `factor` parts, which must divide a
// (InputChannels), b (ReducingDim) or c (OutputChannels).
torch::Tensor serializedMatMul(const torch::Tensor& lhs, const torch::Tensor& rhs,
                               MatMulSerializationMode mode, int64_t factor = 0,
                               bool keep_precision = false);

// Every `step`-th of `size` elements of dimension `dim`, from a start that is known at run time:
// a tensor of one integer. The slice wraps past the end; `size` must divide the dimension.
torch::Tensor dynamic_slice(const torch::Tensor& tensor, int64_t dim, const torch::Tensor& start,
                            int64_t size, int64_t step);
// A copy of `input` with `src` in place of `size` elements of `dim`. Both are of one dtype.
torch::Tensor dynamic_update(const torch::Tensor& input, const torch::Tensor& src, int64_t dim,
                             const torch::Tensor& start, int64_t size);

using AttributeValue = std::variant<double, int64_t, std::string, std::vector<double>,
                                    std::vector<int64_t>, std::vector<std::string>>;

// The outputs of an op that a library declares with custom_op.hpp: load it with dlopen. On the host
// it computes, but gradients do not pass through it: inputs that need one are refused.
Tensors custom_op(const Tensors& inputs, const std::string& name, const std::string& domain,
                  int64_t version, const std::map<std::string, AttributeValue>& attributes = {});

// Takes copies of the inputs. What it writes of tensors around it is written.
using Body = std::function<Tensors(const Tensors&)>;

// The tensors after `count` rounds of `inputs = body(inputs)`; in inference only. The body gives
// tensors of the same shapes and dtypes. In a wrapped model it runs once, to be recorded.
Tensors for_loop(int64_t count, const Body& body, const Tensors& inputs);

// What `then_body` makes of its inputs where `condition`, one boolean or number, holds, else what
// `else_body` makes of its own; in inference only. Both give the same shapes and dtypes.
Tensors cond(const torch::Tensor& condition, const Body& then_body, const Tensors& then_inputs,
             const Body& else_body, const Tensors& else_inputs);

// What the host does in the middle of a program, in inference only: the layer, on the tensors of
// each micro-batch. Tracing calls it on zeros, for the shapes of what it gives. On the host it is
// called.
class CPU {
 public:
  CPU(Body layer, std::string id);
  Tensors operator()(const Tensors& inputs) const;

 private:
  Body layer_;
  std::string id_;
};

}  // namespace poptorch
