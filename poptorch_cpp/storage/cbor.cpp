#include "storage/cbor.hpp"

#include <nlohmann/json.hpp>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::storage {

std::string cbor(std::string_view json) {
  std::string made;
  try {
    nlohmann::json::to_cbor(nlohmann::json::parse(json), made);
  } catch (const nlohmann::json::exception& error) {
    throw support::UserError(support::str("[cbor] this is not JSON: ", error.what()));
  }
  return made;
}

}  // namespace poptorch::storage
