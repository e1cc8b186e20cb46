// The widgets as elements of JSX: `import type {} from "hubbub-client/react"`.

import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { HubbubElement } from "./hubbub.js";

type Attribute = string | number | boolean;
type Widget<Names extends string> = DetailedHTMLProps<HTMLAttributes<HubbubElement>, HubbubElement>
  & { [Name in Names | "api" | "socket" | "limit"]?: Attribute };

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "hubbub-views": Widget<"url" | "site" | "chart">;
      "hubbub-leaderboard": Widget<"board" | "player" | "submit" | "distribution" | "token" | "guest">;
      "hubbub-challenge": Widget<"challenge" | "token" | "guest">;
      "hubbub-comments": Widget<"product" | "language" | "token" | "guest">;
      "hubbub-chat": Widget<"lobby" | "interests">;
    }
  }
}
