// Addresses of pages as a person reads them.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u; // such a character could hide or turn around what follows it
const JOINERS = /[\u200c\u200d]/g; // which Persian and emoji need

/** Return an address with its percent-encoded letters decoded. What is no text, or cannot be seen, stays encoded. */
export function readable(address) {
  return address.replace(/(%[0-9a-f]{2})+/gi, (encoded) => {
    try {
      const text = decodeURI(encoded);
      return UNSEEN.test(text.replace(JOINERS, "")) ? encoded : text;
    } catch {
      return encoded;
    }
  });
}
