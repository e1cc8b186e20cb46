// Addresses of pages as a person reads them.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u; // such a character could hide or turn around what follows it
const JOINERS = /[\u200c\u200d]/g; // Persian and emoji need them

/** Return an address with its percent-encoded letters decoded. Bytes that are no text, and invisible characters, stay encoded. */
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
