#include "frontends/torch/tracer/graph/multi_conv.hpp"

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "poptorch/ops.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch {

MultiConv& MultiConv::set(const std::string& name, std::vector<std::string> values) {
  values_[name] = std::move(values);
  return *this;
}

MultiConv& MultiConv::availableMemoryProportions(const std::vector<double>& value) {
  std::vector<std::string> texts;
  for (const double each : value) texts.push_back(support::str(each));
  return set("availableMemoryProportions", std::move(texts));
}

MultiConv& MultiConv::partialsTypes(const std::vector<torch::Dtype>& value) {
  std::vector<std::string> texts;
  for (const torch::Dtype each : value) {
    if (each != torch::kFloat && each != torch::kHalf) {
      throw support::UserError("Invalid partials types. Expecting torch.float or torch.half");
    }
    texts.emplace_back(each == torch::kHalf ? "half" : "float");
  }
  return set("partialsTypes", std::move(texts));
}

MultiConv& MultiConv::planType(MultiConvPlanType value) {
  serial_ = value == MultiConvPlanType::Serial;
  return set("planType", {serial_ ? "serial" : "parallel"});
}

MultiConv& MultiConv::perConvReservedTiles(int64_t value) {
  return set("perConvReservedTiles", {support::str(value)});
}

MultiConv& MultiConv::cycleBackOff(double value) {
  return set("cycleBackOff", {support::str(value)});
}

MultiConv& MultiConv::enableConvDithering(const std::vector<bool>& value) {
  std::vector<std::string> texts;
  for (const bool each : value) texts.emplace_back(each ? "1" : "0");
  return set("enableConvDithering", std::move(texts));
}

void MultiConv::operator()(const std::function<void()>& body) const {
  frontend::Tracer* tracer = frontend::Tracer::current();
  if (!tracer) return body();
  frontend::MultiConvs& scopes = tracer->multi_convs();
  scopes.begin(tracer->place());
  try {
    body();
  } catch (...) {
    scopes.abandon();
    throw;
  }
  scopes.end({serial_, {values_.begin(), values_.end()}}, tracer->place());
}

}  // namespace poptorch
