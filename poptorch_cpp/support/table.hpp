// A vector that is indexed by one kind of number, such as the id of a value. Ids are 32-bit
// numbers; no index needs a cast.
#pragma once

#include <cstddef>
#include <vector>

namespace poptorch::support {

template <typename Id, typename T>
class Table : public std::vector<T> {
 public:
  using std::vector<T>::vector;

  decltype(auto) operator[](Id id) { return std::vector<T>::operator[](static_cast<size_t>(id)); }
  decltype(auto) operator[](Id id) const {
    return std::vector<T>::operator[](static_cast<size_t>(id));
  }
};

}  // namespace poptorch::support
