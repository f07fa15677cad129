// The colours of the map in both themes.
import type { Theme } from "./airflow";
import type { Palette } from "./sky";

export const PALETTES: Record<Theme, Palette> = {
  light: {
    background: "#ffffff",
    empty: "#eef0f2",
    hatch: "#dcdfe3",
    outline: "#7b838d",
    grid: "rgba(60, 70, 85, 0.45)",
    gridUnder: "rgba(255, 255, 255, 0.18)",
    gridText: "#3b4350",
    gridHalo: "rgba(255, 255, 255, 0.85)",
    border: "rgba(255, 255, 255, 0.55)",
    mark: "#d6006c",
    plane: "rgba(214, 0, 108, 0.6)",
  },
  dark: {
    background: "#111418",
    empty: "#1d2228",
    hatch: "#2a3038",
    outline: "#8b95a3",
    grid: "rgba(225, 232, 242, 0.4)",
    gridUnder: "rgba(10, 12, 15, 0.2)",
    gridText: "#d4dbe5",
    gridHalo: "rgba(10, 12, 15, 0.8)",
    border: "rgba(10, 12, 16, 0.55)",
    mark: "#ff6fb5",
    plane: "rgba(255, 111, 181, 0.65)",
  },
};

// Colours that viridis has not.
export const OVERLAYS = { margin: "#ff2fa0", increment: "#ff2fa0", added: "#ff6a00", removed: "#e7040f" };
