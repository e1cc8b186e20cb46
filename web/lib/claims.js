// The claims of a token, for display. Only the API verifies them.

/** Return the claims of a JWT, or none when it is malformed. */
export function readClaims(token) {
  try {
    const base64 = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}
