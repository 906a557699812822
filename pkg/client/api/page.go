package api

// Page is the part of a list that an answer has.
type Page struct {
	Limit int64   `json:"limit"`
	Next  *string `json:"next"` // The cursor of the next page. null on the last page.
}

// OffsetPage is the part of a list that an answer has.
type OffsetPage struct {
	Limit  int64 `json:"limit"`
	Offset int64 `json:"offset"`
}

// CursorPage is the part of a list that an answer has, of a list with an offset and a cursor.
type CursorPage struct {
	OffsetPage
	Next *string `json:"next"` // The cursor of the next page. null on the last page.
}
