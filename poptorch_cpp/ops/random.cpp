// Random numbers: Philox4x32-10 (Salmon et al. 2011) keyed by seed, op id, replica and micro-batch,
// counted by element. They are thus the same wherever the op runs. The words of stochastic rounding
// depend on the same key (reference/rounding_bits.hpp). Only `seeded_bits` takes its seed as an
// operand.
#include "ops/all_ops.hpp"
#include "ops/rules.hpp"
#include "support/strings.hpp"

namespace poptorch::ops {
namespace {

void add_draw(Registry& r, const char* name, const char* doc, std::vector<ir::AttrDef> attrs,
              const char* popart) {
  attrs.insert(attrs.begin(),
               {at_least(0, {"shape", AttrType::kInts}), {"dtype", AttrType::kDType, DType::kF32}});
  r.add({.name = name,
         .doc = doc,
         .inputs = {},
         .outputs = {"y"},
         .attrs = std::move(attrs),
         .infer =
             [](const InferContext& c) {
               const auto dtype = c.attr<DType>("dtype");
               if (!ir::is_float(dtype)) {
                 c.fail(support::str("dtype must be a float but is ", ir::name(dtype), "."));
               }
               return std::vector{Type{dtype, c.attr<Ints>("shape")}};
             },
         .grad = NoGradient{"it has no operands"},
         .cost = per_element(10),
         .random = true,
         .popart_type = popart});
}

GradRule flat() {
  return [](GradBuilder& g) {
    std::vector<Value*> out;
    for (size_t i = 0; i < g.op().operand_count(); ++i) out.push_back(no_slope(g, g.dy(0)));
    return out;
  };
}

void add_rejections(Registry& r) {
  r.add({.name = "random_gamma",
         .doc = "Numbers of the gamma distribution of shape alpha and scale 1 (Marsaglia and Tsang "
                "2000); nan for a negative shape.",
         .inputs = {"alpha: float"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = NoGradient{"its numbers are drawn by rejection"},
         .cost = per_element(60),
         .random = true});
  r.add({.name = "random_poisson",
         .doc = "Numbers of the Poisson distribution (Hörmann 1993); nan for a negative rate.",
         .inputs = {"rate: float"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = flat(),
         .cost = per_element(60),
         .random = true});
  r.add({.name = "random_binomial",
         .doc = "The number of successes in `count` trials of probability p (Hörmann 1993); nan "
                "for an invalid count or probability.",
         .inputs = {"count: float", "p: =count"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = flat(),
         .cost = per_element(60),
         .random = true});
}

}  // namespace

void add_random_ops(Registry& r) {
  add_rejections(r);
  add_draw(r, "random_uniform", "Numbers of [low, high), uniformly distributed.",
           {{"low", AttrType::kFloat, 0.0}, {"high", AttrType::kFloat, 1.0}}, "RandomUniform");
  add_draw(r, "random_normal", "Normally distributed numbers (Box and Muller 1958).",
           {{"mean", AttrType::kFloat, 0.0}, {"std", AttrType::kFloat, 1.0}}, "RandomNormal");
  r.add({.name = "random_bits",
         .doc = "32 random bits per element.",
         .inputs = {},
         .outputs = {"y"},
         .attrs = {at_least(0, {"shape", AttrType::kInts})},
         .infer =
             [](const InferContext& c) {
               return std::vector{Type{DType::kU32, c.attr<Ints>("shape")}};
             },
         .grad = NoGradient{"it has no operands"},
         .cost = per_element(6),
         .random = true});
  r.add({.name = "seeded_bits",
         .doc = "32 random bits per element that depend on the seed only.",
         .inputs = {"seed: u32"},
         .outputs = {"y"},
         .attrs = {at_least(0, {"shape", AttrType::kInts})},
         .infer =
             [](const InferContext& c) {
               require_shape(c, 0, {2});
               return std::vector{Type{DType::kU32, c.attr<Ints>("shape")}};
             },
         .grad = NoGradient{"bits are not continuous"},
         .cost = per_element(6)});
  r.add({.name = "stochastic_cast",
         .doc = "x rounded to a narrower type: to one of the two nearest values, the nearer with "
                "the higher probability, so that the mean is x. `same_in_replicas`: replicas draw "
                "the same numbers.",
         .inputs = {"x: float"},
         .outputs = {"y"},
         .attrs = {{"dtype", AttrType::kDType}, {"same_in_replicas", AttrType::kBool, false}},
         .infer =
             [](const InferContext& c) {
               const auto dtype = c.attr<DType>("dtype");
               if (!ir::is_half(dtype)) {
                 c.fail(support::str("dtype must be f16 or bf16 but is ", ir::name(dtype), "."));
               }
               return std::vector{Type{dtype, c.operand(0).shape}};
             },
         .grad = NoGradient{"it is inserted after differentiation"},
         .cost = per_element(8),
         .elementwise = true,
         .random = true});
  r.add({.name = "bernoulli",
         .doc = "1 with probability p, else 0.",
         .inputs = {"p: float"},
         .outputs = {"y"},
         .infer = same_as(0),
         .grad = grad1([](GradBuilder&, Val dy) { return dy * 0.0; }),
         .cost = per_element(8),
         .random = true});
  r.add({.name = "dropout",
         .doc = "x · mask / (1 - p) with a mask that is true with probability 1 - p.",
         .inputs = {"x: float"},
         .outputs = {"y", "mask"},
         .attrs = {within({"p", AttrType::kFloat}, 0, 1)},
         .infer =
             [](const InferContext& c) {
               return std::vector{c.operand(0), Type{DType::kBool, c.operand(0).shape}};
             },
         .grad = grad1([](GradBuilder& g, Val dy) {
           double p = g.attr<double>("p");
           double scale = p < 1 ? 1.0 / (1.0 - p) : 0.0;
           Val zero{g.builder().scalar(dy.type().dtype, 0.0), dy.builder};
           return g.emit("select", {g.y(1), dy * scale, zero});
         }),
         .cost = per_element(8),
         .elementwise = true,
         .random = true,
         .popart_type = "Dropout"});
}

}  // namespace poptorch::ops
