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

// Selects the loop whose computation host transfers may overlap with.
enum class OverlapMode { NoOverlap, OverlapAccumulationLoop, OverlapDeviceIterationLoop };

// Selects the dimension of a matrix product that is split.
enum class MatMulSerializationMode { InputChannels, ReducingDim, OutputChannels, Disabled };

// Returns true while the model is traced for the IPU, false on the host.
bool isRunningOnIpu();

// Prefixes the names of ops with `name` during its lifetime, as a module's path does.
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
};

// Attaches the pair to the ops of its lifetime, as Python's poptorch.Attribute does. An inner pair
// replaces an outer one of the same key. Values do not change; graph() shows the pairs.
class Attribute {
 public:
  Attribute(const std::string& key, const std::string& text);
  ~Attribute();
  Attribute(const Attribute&) = delete;
  Attribute& operator=(const Attribute&) = delete;

 private:
  std::map<std::string, std::string> outer_;
};

// Marks a value as the loss: back-propagation starts here with a gradient of ones. `reduction` is
// "sum" or "mean" over all elements, or "none", which leaves `x` as it is. Throws for another one.
torch::Tensor identity_loss(const torch::Tensor& x, const std::string& reduction);

// Says how a tensor is printed. Of a tensor with more elements than `summarise_threshold` (0: no
// limit), only `edge_items` at both ends of each dimension are printed. Rows are broken after
// separators to fit `max_line_width` (0: never). A number has `digits` digits in all (0:
// unaligned). `float_format` is "auto", "fixed", "scientific" or "none".
struct PrintFormat {
  int64_t summarise_threshold = 1000, edge_items = 3, max_line_width = 80, digits = 4;
  std::string float_format = "auto", separator = ", ", open_bracket = "(", close_bracket = ")";
};
// Returns the tensor, which is printed on stderr whenever the device reaches this op. If
// `print_gradient`, its gradient is printed as "<title>_gradient". On the host nothing is printed.
torch::Tensor ipu_print_tensor(const torch::Tensor& tensor, const std::string& title = "",
                               bool print_gradient = true, const PrintFormat& format = {});

// Decodes log probabilities [time, batch, classes] with prefix beam search, for int lengths
// [batch]. Returns log probabilities [batch, top_paths], lengths [batch, top_paths] and paths
// [batch, top_paths, time], best first. Paths are padded with the blank.
Tensors ctc_beam_search_decoder(const torch::Tensor& probs, const torch::Tensor& lengths,
                                int64_t blank = 0, int64_t beam_width = 100, int64_t top_paths = 1);

// Returns indices of points [points, dimensions] that lie far apart (farthest point sampling).
// `ptr` holds the borders of the groups. Each group keeps the share `ratio` of its points, starting
// from its first point or a random one. Throws unless `ratio` is above 0 and at most 1.
torch::Tensor fps(const torch::Tensor& src, const std::vector<int64_t>& ptr, double ratio = 0.5,
                  bool random_start = false);
// Returns for each point of x the index of the nearest point of y. If batches are given for both,
// it is the nearest of the same batch.
torch::Tensor nearest(const torch::Tensor& x, const torch::Tensor& y,
                      const std::optional<torch::Tensor>& batch_x = std::nullopt,
                      const std::optional<torch::Tensor>& batch_y = std::nullopt);

// Selects whether the convolutions of a MultiConv run together.
enum class MultiConvPlanType { Parallel, Serial };

// Makes the convolutions of a body one op of the device, which changes no values. They must not
// need each other's results. Each setting has one value for all convolutions or one for each.
// Settings are advice for hardware, except the plan: in parallel, the default, they run in one
// launch.
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
  // Calls `body`, which is all that it does on the host.
  void operator()(const std::function<void()>& body) const;

 private:
  MultiConv& set(const std::string& name, std::vector<std::string> values);
  bool serial_ = false;
  std::map<std::string, std::vector<std::string>> values_;
};

// Returns the tensor as a separate value.
torch::Tensor nop(const torch::Tensor& tensor);

// Return the tensors, marked as values that recomputation keeps.
torch::Tensor recomputationCheckpoint(const torch::Tensor& tensor);
Tensors recomputationCheckpoint(const Tensors& tensors);

// Returns the tensor. The proportion (0 to 1, else throws) of tile memory is advice for hardware.
torch::Tensor set_available_memory(const torch::Tensor& tensor, double proportion);

// Mark inputs of forward that no other op uses, or tensors to be returned. Their transfers overlap
// with the computation of another iteration of the loop that `mode` names. Compilation refuses them
// without I/O tiles and with PipelinedExecution; outputs need OutputMode All or Sum.
torch::Tensor set_overlap_for_input(const torch::Tensor& input, OverlapMode mode);
Tensors set_overlap_for_input(const Tensors& inputs, OverlapMode mode);
torch::Tensor set_overlap_for_output(const torch::Tensor& output, OverlapMode mode);
Tensors set_overlap_for_output(const Tensors& outputs, OverlapMode mode);

// Returns lhs [..., a, b] times rhs [..., b, c]. Hardware computes it in `factor` parts, which must
// divide a (InputChannels), b (ReducingDim) or c (OutputChannels).
torch::Tensor serializedMatMul(const torch::Tensor& lhs, const torch::Tensor& rhs,
                               MatMulSerializationMode mode, int64_t factor = 0,
                               bool keep_precision = false);

// Returns every `step`-th of `size` elements of dimension `dim`. `start`, a tensor of one integer,
// is known at run time. The slice wraps past the end; `size` must divide the dimension.
torch::Tensor dynamic_slice(const torch::Tensor& tensor, int64_t dim, const torch::Tensor& start,
                            int64_t size, int64_t step);
// Returns a copy of `input` with `src` in place of `size` elements of `dim`. Both must have the
// same dtype and number of dimensions.
torch::Tensor dynamic_update(const torch::Tensor& input, const torch::Tensor& src, int64_t dim,
                             const torch::Tensor& start, int64_t size);

using AttributeValue = std::variant<double, int64_t, std::string, std::vector<double>,
                                    std::vector<int64_t>, std::vector<std::string>>;

// Returns the outputs of an op that a library declares with custom_op.hpp; load it with dlopen. On
// the host the op computes, but gradients do not pass through it: throws there for inputs that need
// one.
Tensors custom_op(const Tensors& inputs, const std::string& name, const std::string& domain,
                  int64_t version, const std::map<std::string, AttributeValue>& attributes = {});

// A function that receives copies of the inputs. What it writes to tensors from outside is kept.
using Body = std::function<Tensors(const Tensors&)>;

// Returns the tensors after `count` iterations of `inputs = body(inputs)`; in inference only. The
// body must return tensors of the same shapes and dtypes. In a wrapped model it runs once, to be
// recorded.
Tensors for_loop(int64_t count, const Body& body, const Tensors& inputs);

// Returns `then_body(then_inputs)` if `condition`, one boolean or number, is true, and else
// `else_body(else_inputs)`; in inference only. Both must return the same shapes and dtypes.
Tensors cond(const torch::Tensor& condition, const Body& then_body, const Tensors& then_inputs,
             const Body& else_body, const Tensors& else_inputs);

// Calls a function on the host in the middle of a program; in inference only. The layer receives
// the tensors of each micro-batch. Tracing calls it with zeros, for the shapes of its results. On
// the host it is called directly.
class CPU {
 public:
  CPU(Body layer, std::string id);
  Tensors operator()(const Tensors& inputs) const;

 private:
  Body layer_;
  std::string id_;
};

}  // namespace poptorch
