// Converts JSON to CBOR (RFC 8949).
#pragma once

#include <string>
#include <string_view>

namespace poptorch::storage {

// Throws UserError for a text that is not JSON.
std::string cbor(std::string_view json);

}  // namespace poptorch::storage
