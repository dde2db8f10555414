// CBOR (RFC 8949) of what is JSON.
#pragma once

#include <string>
#include <string_view>

namespace poptorch::storage {

// UserError for what is no JSON.
std::string cbor(std::string_view json);

}  // namespace poptorch::storage
