package api

// Page describes a page of a list. A cursor leads to the next page.
type Page struct {
	Limit int64   `json:"limit"`
	Next  *string `json:"next"` // The cursor of the next page. null on the last page.
}

// OffsetPage describes a page of a list. The request selects the page by its offset.
type OffsetPage struct {
	Limit  int64 `json:"limit"`
	Offset int64 `json:"offset"`
}

// CursorPage describes a page of a list that supports both an offset and a cursor.
type CursorPage struct {
	OffsetPage
	Next *string `json:"next"` // The cursor of the next page. null on the last page.
}
