#include "frontends/torch/tracer/values/memory.hpp"

#include <algorithm>
#include <tuple>

#include "frontends/torch/aten/call.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"

namespace poptorch::frontend {

Geometry Geometry::of(const at::Tensor& tensor) {
  return {Lengths(tensor.sizes()), Lengths(tensor.strides()),
          tensor.storage_offset(), torch_dtype(narrow(ir_dtype(tensor.scalar_type()))),
          tensor.is_conj(),        tensor.is_neg()};
}

std::strong_ordering Geometry::operator<=>(const Geometry& other) const {
  const auto compared = [](const Lengths& one, const Lengths& two) {
    return std::lexicographical_compare_three_way(one.begin(), one.end(), two.begin(), two.end());
  };
  if (const auto order = compared(sizes, other.sizes); order != 0) return order;
  if (const auto order = compared(strides, other.strides); order != 0) return order;
  return std::tie(offset, dtype, conjugates, negates) <=>
         std::tie(other.offset, other.dtype, other.conjugates, other.negates);
}

std::vector<int64_t> Geometry::element_offsets() const {
  const ir::Shape shape(sizes.begin(), sizes.end());
  std::vector<int64_t> result(static_cast<size_t>(ir::element_count(shape)));
  std::vector<int64_t> position(sizes.size(), 0);
  int64_t at = offset;
  for (int64_t& element : result) {
    element = at;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      at += strides[axis];
      if (++position[axis] < sizes[axis]) break;
      at -= strides[axis] * sizes[axis];
      position[axis] = 0;
    }
  }
  return result;
}

void History::add(const at::Tensor& tensor) {
  handles_.emplace(tensor.unsafeGetTensorImpl(), Handle(tensor.getIntrusivePtr()));
}

void History::require_grad() {
  for (const auto& [impl, handle] : handles_) {
    if (const auto alive = handle.lock()) alive->set_requires_grad(true);
  }
}

Root::Root(const at::Tensor& tensor, ir::Value* value, bool followed)
    : geometry_(Geometry::of(tensor)), storage_(tensor.storage()) {
  views_[geometry_] = {};
  data_.seen_[geometry_] = {value, version_};
  History& history = own_history_of(tensor);
  if (followed) history.seen_[geometry_] = {value, version_};
}

History* Root::history_of(const at::Tensor& tensor) {
  for (const auto& history : histories_) {
    if (history->has(tensor)) return history.get();
  }
  return nullptr;
}

History& Root::own_history_of(const at::Tensor& tensor) {
  if (History* known = history_of(tensor)) return *known;
  histories_.push_back(std::make_unique<History>());
  histories_.back()->add(tensor);
  return *histories_.back();
}

History& Root::fork_history(Cursor& cursor, History& history, const at::Tensor& tensor) {
  read(cursor, geometry_, history);
  History& fork = own_history_of(tensor);
  fork.seen_[geometry_] = history.seen_.at(geometry_);
  return fork;
}

void Root::replace(const Geometry& view, ir::Value* value, History& history) {
  // Forgets the views that were read already, so that they see `value` too.
  std::erase_if(history.seen_,
                [&](const auto& seen) { return !seen.second.replaced && seen.first != geometry_; });
  history.seen_[view] = {value, version_, true};
}

void Root::add_view(const Geometry& view, const Geometry& base, ViewLinkPtr link) {
  if (!knows(view)) views_[view] = {.base = base, .link = std::move(link)};
}

namespace {

// Returns a link by the places of the elements; nullptr if the base has another dtype or signs, or
// does not have them all.
ViewLinkPtr link_by_places(const Geometry& base, const Geometry& view) {
  if (view.dtype != base.dtype || view.conjugates != base.conjugates ||
      view.negates != base.negates) {
    return nullptr;
  }
  std::unordered_map<int64_t, int32_t> places;
  const auto elements = base.element_offsets();
  for (size_t i = 0; i < elements.size(); ++i) {
    places.emplace(elements[i], static_cast<int32_t>(i));
  }
  std::vector<int32_t> indices;
  for (const int64_t element : view.element_offsets()) {
    const auto place = places.find(element);
    if (place == places.end()) return nullptr;
    indices.push_back(place->second);
  }
  return strided_link({base.sizes.begin(), base.sizes.end()},
                      {view.sizes.begin(), view.sizes.end()}, std::move(indices));
}

}  // namespace

bool Root::add_strided_view(const Geometry& view, const Geometry& base) {
  ViewLinkPtr link = link_by_places(base, view);
  if (!link) return false;
  add_view(view, base, std::move(link));
  return true;
}

Root::View Root::step_of_write(const Geometry& view) const {
  const View& own = views_.at(view);
  const View* repeating = nullptr;
  for (const View* step = &own; step->link; step = &views_.at(step->base)) {
    if (step->link->repeats()) repeating = step;
  }
  if (!repeating) return own;
  ViewLinkPtr direct = link_by_places(repeating->base, view);
  if (!direct || direct->repeats()) return own;
  return {.base = repeating->base, .link = std::move(direct)};
}

ir::Value* Root::read(Cursor& cursor, const Geometry& geometry, History& history) {
  const View& view = views_.at(geometry);
  History::Sight& sight = history.seen_[geometry];
  if (!view.link) {
    if (sight.version == version_) return cursor.bring(sight.value, this);
    ir::Value* value = cursor.join(this->value(), sight.value, this);
    if (&value->graph() == &this->value()->graph()) sight = {value, version_};
    return value;
  }
  if (sight.version != version_ || &sight.value->graph() != &cursor.builder().graph()) {
    sight = {view.link->read(cursor.builder(), read(cursor, view.base, history)), version_};
  }
  return sight.value;
}

void Root::write(Cursor& cursor, const Geometry& geometry, ir::Value* value, History* history) {
  put(cursor, geometry, value, history ? *history : data_);
  if (history) data_.seen_[geometry_] = history->seen_[geometry_];
}

void Root::put(Cursor& cursor, const Geometry& geometry, ir::Value* value, History& history) {
  const View view = step_of_write(geometry);
  if (view.link) {
    ir::Value* base = read(cursor, view.base, history);
    put(cursor, view.base, view.link->write(cursor.builder(), base, value), history);
  } else {
    ++version_;
  }
  history.seen_[geometry] = {value, version_};
}

Root& Memory::add(const at::Tensor& tensor, ir::Value* value, bool followed) {
  roots_.push_back(std::make_unique<Root>(tensor, value, followed));
  by_storage_.emplace(tensor.storage().unsafeGetStorageImpl(), roots_.back().get());
  return *roots_.back();
}

Root* Memory::find(const at::Tensor& tensor) {
  const auto [first, last] = by_storage_.equal_range(tensor.storage().unsafeGetStorageImpl());
  if (first == last) return nullptr;
  const Geometry geometry = Geometry::of(tensor);
  for (auto it = first; it != last; ++it) {
    if (it->second->knows(geometry)) return it->second;
  }
  for (auto it = first; it != last; ++it) {
    if (it->second->add_strided_view(geometry, it->second->geometry())) return it->second;
  }
  return nullptr;
}

History* Memory::move_history(const at::Tensor& tensor, Root& root) {
  for (const auto& former : roots_) {
    History* old = former->history_of(tensor);
    if (!old || former.get() == &root) continue;
    History& history = root.own_history_of(tensor);
    // The version stays unset, so that the next read joins this value with the data.
    history.seen_[root.geometry()].value = old->seen_[former->geometry()].value;
    old->remove(tensor);
    return &history;
  }
  return nullptr;
}

}  // namespace poptorch::frontend
