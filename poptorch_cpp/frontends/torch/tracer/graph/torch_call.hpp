// Presents a dispatcher call to the aten rows.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "frontends/torch/aten/call.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"

namespace poptorch::frontend {

class TorchCall final : public Call {
 public:
  // `arguments` has one entry per argument of the schema.
  TorchCall(Tracer& tracer, const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments)
      : Call(tracer.builder()), tracer_(tracer), schema_(schema), arguments_(arguments) {}

  using Call::dtype;
  using Call::given;
  using Call::ints;
  using Call::tensor;
  using Call::text;

  std::string name() const override;
  size_t index_of(std::string_view argument) const override;
  bool given(size_t argument) const override;
  // Returns false for Python numbers that torch wrapped into tensors: they are numbers.
  bool is_tensor(size_t argument) const override;
  bool is_list(size_t argument) const override;
  Number number(size_t argument) const override;
  Ints ints(size_t argument) const override;
  std::string text(size_t argument) const override;
  DType dtype(size_t argument) const override;
  std::optional<Ints> known(size_t argument) const override;
  DType default_float() const override;
  void write(size_t argument, Value* value) override;
  bool training() const override { return tracer_.follows_gradients(); }
  bool differentiates() const override {
    return tracer_.follows_gradients() || tracer_.follows_state();
  }
  std::string place() const override { return tracer_.place(); }

 protected:
  TensorValue read(size_t argument) override;
  std::vector<TensorValue> read_list(size_t argument) override;
  DType promoted(const std::vector<size_t>& arguments) const override;
  size_t argument_count() const override { return arguments_.size(); }

 private:
  TensorValue value_of(const at::Tensor& tensor);

  Tracer& tracer_;
  const c10::FunctionSchema& schema_;
  c10::ArrayRef<c10::IValue> arguments_;
};

}  // namespace poptorch::frontend
