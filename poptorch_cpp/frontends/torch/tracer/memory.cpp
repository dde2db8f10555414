// Implements memory.hpp.
#include "frontends/torch/tracer/memory.hpp"

#include <algorithm>

#include "support/error.hpp"

namespace poptorch::frontend {

Geometry Geometry::of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(),
          tensor.scalar_type()};
}

std::vector<int64_t> Geometry::element_offsets() const {
  std::vector<int64_t> result(static_cast<size_t>(ir::element_count(sizes)));
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

Root::Root(const at::Tensor& tensor, ir::Value* value)
    : geometry_(Geometry::of(tensor)), storage_(tensor.storage()), value_(value) {
  views_[geometry_] = {.base = {}, .link = nullptr, .value = value};
  add_handle(tensor);
}

void Root::add_handle(const at::Tensor& tensor) {
  handles_.emplace(tensor.unsafeGetTensorImpl(), Handle(tensor.getIntrusivePtr()));
}

void Root::require_grad() {
  for (const auto& [impl, handle] : handles_) {
    if (const auto alive = handle.lock()) alive->set_requires_grad(true);
  }
}

void Root::add_view(const Geometry& view, const Geometry& base, ViewLinkPtr link) {
  if (!knows(view)) views_[view] = {.base = base, .link = std::move(link), .version = UINT64_MAX};
}

bool Root::add_strided_view(const Geometry& view) {
  const Geometry& base = geometry_;
  if (view.dtype != base.dtype) return false;
  std::unordered_map<int64_t, int32_t> places;
  const auto elements = base.element_offsets();
  for (size_t i = 0; i < elements.size(); ++i) {
    places.emplace(elements[i], static_cast<int32_t>(i));
  }
  std::vector<int32_t> indices;
  for (const int64_t element : view.element_offsets()) {
    const auto place = places.find(element);
    if (place == places.end()) return false;
    indices.push_back(place->second);
  }
  add_view(view, base, strided_link(base.sizes, view.sizes, std::move(indices)));
  return true;
}

ir::Value* Root::read(Cursor& cursor, const Geometry& geometry) {
  View& view = views_.at(geometry);
  if (!view.link) return cursor.bring(value_, this);
  if (view.version != version_ || &view.value->graph() != &cursor.builder().graph()) {
    view.value = view.link->read(cursor.builder(), read(cursor, view.base));
    view.version = version_;
  }
  return view.value;
}

void Root::write(Cursor& cursor, const Geometry& geometry, ir::Value* value) {
  View& view = views_.at(geometry);
  if (!view.link) {
    value_ = value;
    ++version_;
    return;
  }
  ir::Value* base = view.link->write(cursor.builder(), read(cursor, view.base), value);
  write(cursor, view.base, base);
  view.value = value;
  view.version = version_;
}

Root& Memory::add(const at::Tensor& tensor, ir::Value* value) {
  roots_.push_back(std::make_unique<Root>(tensor, value));
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
    if (it->second->add_strided_view(geometry)) return it->second;
  }
  return nullptr;
}

}  // namespace poptorch::frontend
